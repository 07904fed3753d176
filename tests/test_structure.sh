#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_structure.sh BUILD: the structure of the code, read from the object files of a build.
#   - a folder uses only the folders that CMakeLists.txt says it depends on (BUILD/structure.txt), directly or through these:
#     by what its objects call and by what its files include
#   - the files of a folder form no circle: where one file calls another, that one does not lead back to it
#   - what a file shows to others begins with the prefix of its layer
# The functions of the C library that a program may replace (malloc and the like) count as nobody's.
# Prints what breaks these rules, and ends with "N folders, N files, N circles, N forbidden uses, N foreign prefixes".
set -euo pipefail
build=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A line a file: its object. Then a line a symbol: the file that defines it, or that wants it.
while read -r target folder _; do
    find "$build/CMakeFiles/$target.dir/$folder" -maxdepth 1 -name '*.c.o' -printf "$folder/%f %p\n" 2>/dev/null | sed 's/\.c\.o / /'
done <"$build/structure.txt" | sort >"$work/objects"
while read -r file object; do
    [ ! -f "$file.c" ] || echo "$file $object" # not of a source that was moved away since
done <"$work/objects" >"$work/there"
cut -d' ' -f2 "$work/there" | xargs nm -gA | awk 'NR == FNR {file[$2] = $1; next}
    $NF ~ /^(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|memalign)$/ {next}
    {object = $1; sub(":.*", "", object)}
    $(NF-1) == "U" {print "U", $NF, file[object]; next} {print "D", $NF, file[object]}' "$work/there" - >"$work/symbols"
awk '$1 == "D" {defined[$2] = $3; next} {wanted[++n] = $2; by[n] = $3}
     END {for (i = 1; i <= n; i++) if (wanted[i] in defined && defined[wanted[i]] != by[i]) print by[i], defined[wanted[i]], wanted[i]}' \
    "$work/symbols" | sort -u >"$work/calls"

# What each folder may use: what it depends on, and what these do.
awk '{folder[$1] = $2; direct[$2] = ""; for (i = 3; i <= NF; i++) direct[$2] = direct[$2] " " $i}
     function walk(from, at,   list, n, i) {
         if ((from, at) in seen) return
         seen[from, at] = 1
         print from, at
         n = split(direct[at], list, " ")
         for (i = 1; i <= n; i++) walk(from, list[i])
     }
     END {for (f in direct) walk(f, f)}' "$build/structure.txt" >"$work/allowed"

# Uses across folders: by calls, and by includes.
{
    awk '{print $1, $2, "calls " $3}' "$work/calls"
    while read -r _ folder _; do
        grep -Hno '^#include "[a-z_]*/[^"]*"' "$folder"/*.c "$folder"/*.h "$folder"/*.def 2>/dev/null || true
    done <"$build/structure.txt" | sed 's/^\([^:]*\):[0-9]*:#include "\(.*\)"/\1 \2 includes/'
} | awk 'function folder(path) {sub("/[^/]*$", "", path); return path}
         NR == FNR {allowed[$1, $2] = 1; known[$1] = 1; next}
         folder($2) in known && !((folder($1), folder($2)) in allowed) {print "forbidden:", $1, "uses", $2, "(" $3 " " $4 ")"}' \
    "$work/allowed" - | sort -u >"$work/forbidden"

# The layers, whatever CMakeLists.txt may say one day: ir/ knows nobody, the planners nobody but ir/base, the runtime neither the
# compiler nor any pass. The planners lie in passes/ and are a library of their own: compiling uses it, and so does a run, for the
# shapes that it is given.
awk '$1 ~ "^ir/" && $2 !~ "^ir/" || $1 ~ "^passes/planners" && $2 !~ "^(passes/planners|ir/base)" ||
     $1 ~ "^runtime" && $2 ~ "^(compiler|passes)" && $2 !~ "^passes/planners" || $1 ~ "^passes" && $2 ~ "^compiler" {
         print "forbidden:", $1, "depends on", $2}' "$work/allowed" | sort >>"$work/forbidden"

# Files that call each other in a circle, within their folder. tsort names the members of each.
awk 'function folder(path) {sub("/[^/]*$", "", path); return path} folder($1) == folder($2) {print $1, $2}' "$work/calls" |
    sort -u | tsort 2>&1 >/dev/null | sed 's/^tsort: //; s/^-: input contains a loop:/circle:/' >"$work/circles" || true

# One prefix a layer; parts that are a vocabulary of their own have a second one: the loop passes and the bands, the verifier's
# replay and the structure check of plans, the expressions of converters. Public functions begin with ouro_.
awk 'function prefixes(file) {
         if (file ~ "^ir/base/") return "base"
         if (file ~ "^ir/operators/") return "op"
         if (file ~ "^ir/") return "ir"
         if (file ~ "^passes/planners/exact/") return "exact"
         if (file ~ "^passes/planners/") return "planner"
         if (file ~ "^passes/loops/") return "pass|loop"
         if (file ~ "^passes/bands/") return "pass|band"
         if (file ~ "^passes/") return "pass"
         if (file ~ "^runtime/plan/") return "plan|replay|structure"
         if (file ~ "^runtime/") return "rt|ouro"
         if (file ~ "^compiler/onnx/convert/") return "import|expr"
         if (file ~ "^compiler/onnx/") return "import"
         if (file ~ "^compiler/files/") return "file"
         if (file ~ "^compiler/report/") return "emit"
         if (file ~ "^compiler/command/") return "command|main"
         return "compile|ouro"
     }
     $1 == "D" && $2 !~ "[.]|^__" && $2 !~ "^(" prefixes($3) ")(_|$)" {print "prefix:", $3, "shows", $2 ", expected " prefixes($3) "_..."}' \
    "$work/symbols" >"$work/prefixes"

# Clang 14, which builds the fuzz targets, does not know this processor feature by name: only the function that knows that asks for it.
grep -rln '__builtin_cpu_supports("f16c")' runtime | grep -v '/lanes\.h$' | sed 's/$/: use rt_has_half_conversions (lanes.h)/' >"$work/unknown" || true

cat "$work/forbidden" "$work/circles" "$work/prefixes" "$work/unknown"
circles=$(grep -c '^circle' "$work/circles" || true)
echo "$(wc -l <"$build/structure.txt") folders, $(cut -d' ' -f3 "$work/symbols" | sort -u | wc -l) files, $circles circles, $(wc -l <"$work/forbidden") forbidden uses, $(wc -l <"$work/prefixes") foreign prefixes"
[ "$circles" = 0 ] && [ ! -s "$work/forbidden" ] && [ ! -s "$work/prefixes" ] && [ ! -s "$work/unknown" ]

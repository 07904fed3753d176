#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_docs.sh: the files and folders that the pages below name are there, and so are the pages that all pages link to. Files that
# comments name are there, too, and every source says its licence.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
status=0
for page in docs/TENSOR.md docs/OPERATORS.md CONTRIBUTING.md; do
    for name in $(grep -oE '`(ir|passes|compiler|runtime|models|tests|docs|cmake)/[A-Za-z0-9_./*-]+`' "$page" | tr -d '`' | sort -u); do
        # A name in capitals stands for any.
        [[ $name =~ /[A-Z]+/ || $name =~ NAME ]] && continue
        compgen -G "$name" >/dev/null || { echo "$page names $name, which is not there"; status=1; }
    done
done
for page in README.md CONTRIBUTING.md CHANGELOG.md docs/*.md; do
    for link in $(grep -oE '\]\([A-Za-z0-9_./-]+\.md\)' "$page" | sed 's/^](//; s/)$//' | sort -u); do
        [ -e "$(dirname "$page")/$link" ] || { echo "$page links to $link, which is not there"; status=1; }
    done
done
# As a path, or as the end of one. What is included is the compiler's business.
awk 'NR == FNR {for (path = $0; ; ) {there[path] = 1; if (!sub("^[^/]*/", "", path)) break} next}
     !($2 in there) {print $1, "names", $2 ", which is not there"; missing = 1}
     END {exit missing}' \
    <(find ir passes compiler runtime models tests docs cmake README.md CHANGELOG.md CONTRIBUTING.md -type f) \
    <(grep -rnE '^ \*|/\*|^#' ir passes compiler runtime models tests \
        --include=*.c --include=*.h --include=*.def --include=*.sh --include=CMakeLists.txt |
        grep -vE ':[0-9]+:#(include|define)' |
        grep -oE '^[^:]*:[0-9]+:|(^|[ (`])[a-z_0-9/]*[a-z_0-9]{2,}\.(c|h|def|md)\b' |
        awk '/:$/ {at = $0; next} {gsub("[ (`]", ""); print at, $0}' | grep -vE 'pb-c|xxhash|ContribOperators' | sort -u) || status=1
# Every source says its licence on its first line, or after the line that names its interpreter.
while read -r file; do
    head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || { echo "$file does not say its licence: SPDX-License-Identifier: Apache-2.0"; status=1; }
done < <(find ir passes compiler runtime models tests cmake -name cases -prune -o -type f \( -name '*.[ch]' -o -name '*.def' -o -name '*.sh' -o -name '*.py' -o -name CMakeLists.txt \) -print)
exit $status

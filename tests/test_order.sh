#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_order.sh: a plan is the same bytes whichever C compiler built ouro. C leaves open which argument of a call comes first, which
# item of an initializer, and which side of an operator (but for && || ?: and the comma): GCC begins with the last argument, Clang with
# the first. So of these only one may make something in the IR (a node, a constant, a graph, a symbol), by itself or through what it
# calls: what is made gets its number then, and its place. Two of them are two statements.
# A file of faults and of what is none is read with the others: of this one exactly the faults must be found.
# Prints the places that break the rule, and ends with "N functions, N make something, N open orders, N of N faults found".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/order.awk" <<'END'
# What gives numbers, or a place in a list; `dim_compute` is what an op_call points to.
BEGIN {
    root_count = split("ir_graph_new ir_graph_add_parameter ir_graph_add_result ir_constant_new ir_constant_copy ir_constant_reserve ir_node_new " \
        "ir_node_add_output ir_node_add_graph ir_node_give_output ir_node_relocate ir_node_move ir_symbol_named ir_symbol_compute " \
        "dim_compute", roots, " ")
    for (i = 1; i <= root_count; i++) making["", roots[i]] = 1
    n = split("if while for switch return sizeof case else do _Alignof _Alignas typeof", words, " ")
    for (i = 1; i <= n; i++) keyword[words[i]] = 1
}

# Comments, texts and characters are blanks here; a macro is a function that calls what its text calls.
FNR == 1 {in_comment = in_macro = 0; outside()}
{
    line = $0
    if (in_comment) {
        if (!(at = index(line, "*/"))) next
        line = substr(line, at + 2)
        in_comment = 0
    }
    if (in_macro || line ~ /^[ \t]*#/) {
        if (!in_macro) {
            macro = line ~ /^[ \t]*#[ \t]*define[ \t]+[A-Za-z_0-9]+\(/ ? line : ""
            sub(/^[ \t]*#[ \t]*define[ \t]+/, "", macro)
            sub(/\(.*/, "", macro)
        }
        in_macro = line ~ /\\$/
        if (macro != "") {
            body = line
            sub(/^[ \t]*#[ \t]*define[ \t]+[A-Za-z_0-9]+\([^)]*\)/, "", body)
            while (match(body, /[A-Za-z_][A-Za-z_0-9]*\(/)) {
                add_call(FILENAME, macro, substr(body, RSTART, RLENGTH - 1))
                body = substr(body, RSTART + RLENGTH)
            }
            scope[FILENAME, macro] = FILENAME ~ /\.h$/ ? "" : FILENAME
        }
        next
    }
    while (line != "") {
        if (match(line, /^[ \t]+/)) {
            line = substr(line, RLENGTH + 1)
        } else if (match(line, /^\/\*/)) {
            if (!(at = index(substr(line, 3), "*/"))) {
                in_comment = 1
                break
            }
            line = substr(line, at + 4)
        } else if (match(line, /^"([^"\\]|\\.)*"/) || match(line, /^'([^'\\]|\\.)*'/)) {
            line = substr(line, RLENGTH + 1)
            token("0")
        } else if (match(line, /^[A-Za-z_0-9]+/) || match(line, /^(->|&&|\|\|)/)) {
            text = substr(line, 1, RLENGTH)
            line = substr(line, RLENGTH + 1)
            token(text)
        } else {
            text = substr(line, 1, 1)
            line = substr(line, 2)
            token(text)
        }
    }
}

function outside() {
    depth = parens = 0
    candidate = last = ""
    static = 0
}

function add_call(file, from, to) {
    if (!(to in keyword) && !((file, from, to) in called)) {
        called[file, from, to] = 1
        calls++
        call_file[calls] = file
        call_from[calls] = from
        call_to[calls] = to
    }
}

# Finds the functions of a file; what stands in one is kept for `check`.
function token(text) {
    if (depth == 0) {
        if (text == "(" && parens++ == 0) candidate = last
        else if (text == ")") parens--
        else if (text == "static" && parens == 0) static = 1
        else if (text == "{" && parens == 0 && last == ")") {
            depth = 1
            functions++
            name[functions] = candidate
            named[candidate] = 1
            file[functions] = FILENAME
            first[functions] = tokens + 1
            scope[FILENAME, candidate] = static && FILENAME !~ /\.h$/ ? FILENAME : ""
        } else if (text == "{" && parens == 0) {
            depth = 1
            candidate = ""
        } else if (text == ";" && parens == 0) outside()
    } else {
        if (text == "(" && candidate != "" && last ~ /^[A-Za-z_]/) add_call(FILENAME, candidate, last)
        if (text == "{") depth++
        else if (text == "}" && --depth == 0) {
            if (candidate != "") end[functions] = tokens
            outside()
            return
        }
        if (candidate != "") {
            kept[++tokens] = text
            line_of[tokens] = FNR
        }
    }
    last = text
}

function makes(of, callee) {
    return (of, callee) in scope ? (scope[of, callee], callee) in making : ("", callee) in making
}

# ---- one function: a stack of brackets ----

function push(is, of) {
    top++
    kind[top] = is
    callee_of[top] = of
    parts[top] = part_makes[top] = made[top] = atoms[top] = 0
}

function atom() {
    made[top] = part_makes[top] = 1
    if (++atoms[top] == 2) open_order()
}

function open_order(   what) {
    found[file[f] ":" line_of[i]] = 1
    what = kind[top] == "call" ? "arguments of a call" : kind[top] == "list" ? "items of a list" : "sides of an operator"
    printf "%s:%d: in %s: two %s make something in the IR, in an order that C leaves open\n", file[f], line_of[i], name[f], what
}

# Leaves a bracket: what it made, or what the call makes, is one thing that its surroundings make.
function pop(   any) {
    if (kind[top] == "call" || kind[top] == "list") {
        parts[top] += part_makes[top]
        if (parts[top] > 1) open_order()
    }
    any = made[top] || kind[top] == "call" && makes(file[f], callee_of[top])
    is_control = kind[top] == "control"
    is_block = kind[top] == "block"
    top--
    if (any) atom()
    if (is_control || is_block) atoms[top] = 0
}

function check(   t, before) {
    top = 0
    push("block", "")
    before = "{"
    after_control = 1
    for (i = first[f]; i <= end[f]; i++) {
        t = kept[i]
        if (t == "(") {
            if (before ~ /^(if|while|for|switch)$/) push("control", "")
            else if (before ~ /^[A-Za-z_]/ && !(before in keyword) || before == "]") push("call", before)
            else push("group", "")
        } else if (t == "[") push("group", "")
        else if (t == "{") push((kind[top] == "block" && (before ~ /^([;{}:]|else|do)$/ || before == ")" && is_control)) ? "block" : "list", "")
        else if (t == ")" || t == "]" || t == "}") pop()
        else if (t == ",") {
            if (kind[top] == "call" || kind[top] == "list") {
                parts[top] += part_makes[top]
                part_makes[top] = 0
            }
            atoms[top] = 0
        } else if (t ~ /^(&&|\|\||[?:;])$/) atoms[top] = 0
        before = t
    }
}

END {
    do {
        changed = 0
        for (c = 1; c <= calls; c++) {
            s = (call_file[c], call_from[c]) in scope ? scope[call_file[c], call_from[c]] : ""
            if (!((s, call_from[c]) in making) && makes(call_file[c], call_to[c])) changed = making[s, call_from[c]] = 1
        }
    } while (changed)
    for (f = 1; f <= functions; f++) {
        makers += makes(file[f], name[f])
        check()
    }
    for (i = 1; i <= root_count; i++) {
        if ((roots[i] in named) || roots[i] == "dim_compute") continue
        printf "%s is no function any more: its name is to be changed here\n", roots[i]
        bad = 1
    }
    while ((getline line < faults) > 0) {
        at = faults ":" ++number
        seeded += line ~ /open \*\//
        seen += line ~ /open \*\// && (at in found)
        if ((line ~ /open \*\//) == (at in found)) delete found[at]
        else found[at] = 1
    }
    for (at in found) open++
    printf "%d functions, %d make something, %d open orders, %d of %d faults found\n", functions, makers, open, seen, seeded
    exit bad || open > 0
}
END

cat >"$work/faults.c" <<'END'
static ir_value *made(ir_graph *graph) {
    return ir_node_add_output(ir_node_new(graph), NULL);
}
#define MADE(graph) made(graph)
static void faults(ir_graph *g, op_call *call) {
    use(made(g), made(g)); /* open */
    use(1, MADE(g), made(g)); /* open */
    use(made(g), known(known(made(g)))); /* open */
    use(x ? made(g) : NULL, made(g)); /* open */
    ir_value *list[] = {x, made(g), made(g)}; /* open */
    const pair both = {.first = made(g), .second = made(g)}; /* open */
    use((ir_value *[]){made(g), made(g)}); /* open */
    if (made(g) == made(g)) return; /* open */
    use(call->dim_compute(u, '+', a, b), call->dim_compute(u, '*', a, b)); /* open */
}
static void fine(ir_graph *g) {
    ir_value *x = made(g), *y = made(g);
    use(made(g), "made(g), made(g)"); /* made(g), made(g) */
    use(x ? made(g) : made(made(g)), known(y));
    if (made(g) && made(g)) use(made(g), y);
    for (; made(g) || made(g);) made(g);
    use(known(made(known(made(g)))), y);
    const list one = {made(g), {x, y}};
}
END

# shellcheck disable=SC2046 # names without spaces
awk -v faults="$work/faults.c" -f "$work/order.awk" $(find ir passes compiler -name '*.c' -o -name '*.h' | sort) "$work/faults.c" >"$work/found" || status=$?
grep -v "^$work/faults.c" "$work/found"
exit ${status:-0}

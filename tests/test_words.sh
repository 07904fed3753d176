#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_words.sh: code and documentation use the words of docs/GLOSSARY.md.
#   - every term of the glossary is used in a header (or in the operator table)
#   - the words below, which the glossary's replace, stand nowhere, or not in the folders named: each with what to write instead
# Ends with "N terms, N unused, N replaced words".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

replaced='
op_row|operator schema
BASE_MACHINE|system error
twins?|congruent
mirrors?|shadow execution
trades?|buffer swap
traded|buffer swap
open extents?|dynamic dimensions
open dimensions?|dynamic dimensions
rooms?|capacity, temporary, reservation, free range, or folder
slots?|tensor id, or input and output|runtime/plan runtime/*.c runtime/*.h compiler
behind|after
plain layouts?|row-major layout
'

headers=$(find ir passes compiler runtime models -name '*.h' -o -name '*.def')
# Comments as one line each, so that a term may stand at the end of one line and the beginning of the next.
text=$(cat $headers | tr '\n' ' ' | sed 's/ \*  */ /g' | tr -s ' ')
terms=$(sed -n 's/^| \([^|]*\) |.*/\1/p' docs/GLOSSARY.md | grep -v '^term$\|^---' | sed 's/ *$//')
unused=0
while read -r term; do
    pattern=${term//[ -]/[-_ ]?}
    if ! grep -qiE "$pattern" <<<"$text"; then
        echo "no header uses '$term' of docs/GLOSSARY.md"
        unused=$((unused + 1))
    fi
done <<<"$terms"

found=0
while IFS='|' read -r word instead where; do
    [ -n "$word" ] || continue
    # shellcheck disable=SC2086 # a list of paths
    if grep -rnwiE "$word" --exclude=GLOSSARY.md --exclude=test_words.sh ${where:-ir passes compiler runtime models docs README.md tests}; then
        echo "^ write: $instead"
        found=$((found + 1))
    fi
done <<<"$replaced"
echo "$(wc -l <<<"$terms") terms, $unused unused, $found replaced words"
[ $unused = 0 ] && [ $found = 0 ]

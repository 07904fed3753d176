#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_docs.sh: the files and folders that the pages below name are there, and so are the pages that all pages link to.
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
exit $status

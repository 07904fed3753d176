# SPDX-License-Identifier: Apache-2.0
# cmake -DNAME=symbol -DFILE=in -DOUTPUT=out.c -P embed.cmake: a file as a zero-terminated array of characters.
file(READ "${FILE}" bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
string(REGEX REPLACE "((.......){16})" "\\1\n" bytes "${bytes}")
file(WRITE "${OUTPUT}" "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0};\n")

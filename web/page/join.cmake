# Joins index.html, page.css, the SCRIPTS and dygraphs into one page: OUTPUT.html, and OUTPUT.c, which has its bytes.
# REPORT_KEYS are those of iterations and clocks in KEYS (agileml/wire/report_keys.def). Called by CMakeLists.txt:
# cmake -D FOLDER= -D SCRIPTS= -D KEYS= -D DYGRAPHS_JS= -D DYGRAPHS_CSS= -D OUTPUT= -P join.cmake
cmake_minimum_required(VERSION 3.25)

# Sets `variable` to the SHA-256 of `text` in base64, as a Content-Security-Policy names an inline script.
function(hash_base64 variable text)
    set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    string(SHA256 hex "${text}")
    set(result "")
    # Six hexadecimal digits are three bytes, or four digits of base64; 64 of them are ten times that and two bytes.
    foreach(place RANGE 0 60 6)
        string(SUBSTRING "${hex}00" ${place} 6 group)
        math(EXPR number "0x${group}")
        foreach(shift 18 12 6 0)
            math(EXPR digit "(${number} >> ${shift}) & 63")
            string(SUBSTRING "${digits}" ${digit} 1 character)
            string(APPEND result "${character}")
        endforeach()
    endforeach()
    string(REGEX REPLACE ".$" "=" result "${result}")
    set(${variable} "${result}" PARENT_SCOPE)
endfunction()

function(read variable path)
    file(READ "${path}" text)
    string(REGEX REPLACE "\n?(//|/\\*)# sourceMappingURL=[^\n]*" "" text "${text}") # a browser would look for it
    set(${variable} "${text}" PARENT_SCOPE)
endfunction()

read(page "${FOLDER}/index.html")
read(dygraphs_css "${DYGRAPHS_CSS}")
read(css "${FOLDER}/page.css")
set(css "${dygraphs_css}\n${css}")

read(dygraphs_js "${DYGRAPHS_JS}")
set(own "")
foreach(script IN LISTS SCRIPTS)
    read(text "${FOLDER}/${script}")
    string(APPEND own "${text}\n")
endforeach()
set(keys "")
file(STRINGS "${KEYS}" rows REGEX "^KEY\\([^,]*(CLOCK|ITERATION)")
foreach(row IN LISTS rows)
    if(row MATCHES "^KEY\\([^,]*, [A-Z_]+, ([a-z0-9_]+), ") # a ; in a text makes two items of a row
        string(APPEND keys "\"${CMAKE_MATCH_1}\", ")
    endif()
endforeach()
set(own "const REPORT_KEYS = new Set([${keys}]);\n${own}")
set(js "${dygraphs_js}\n(() => {\n\"use strict\";\n${own}})();\n")

hash_base64(css_hash "${css}")
hash_base64(js_hash "${js}")
string(CONCAT policy "default-src 'none'; script-src 'sha256-${js_hash}'; style-src 'sha256-${css_hash}'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'")

string(REPLACE "<!--POLICY-->" "${policy}" page "${page}")
string(REPLACE "<!--STYLE-->" "<style>${css}</style>" page "${page}")
string(REPLACE "<!--SCRIPT-->" "<script>${js}</script>" page "${page}")
file(WRITE "${OUTPUT}.html" "${page}")

file(READ "${OUTPUT}.html" hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
file(WRITE "${OUTPUT}.c" "/* Made by web/page/join.cmake. */
#include \"web/page/page.h\"

const char web_page[] = {
${bytes}
0};
const size_t web_page_size = sizeof web_page - 1;
const char web_page_policy[] = \"${policy}\";
")

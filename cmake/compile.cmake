# How all of our own code is compiled. Targets link `proteus_compile` privately to get it.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# No NDEBUG in a release: assertions guard our own mistakes there too, and -g costs no speed.
set(CMAKE_C_FLAGS_RELEASE "-O3 -g")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g")

add_library(proteus_compile INTERFACE)
target_include_directories(proteus_compile INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(proteus_compile INTERFACE _GNU_SOURCE PROTEUS_VERSION="${PROJECT_VERSION}")
target_compile_options(proteus_compile INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
if(PROTEUS_WERROR)
    target_compile_options(proteus_compile INTERFACE -Werror)
endif()
# A program loads the libraries that it uses, not all of those that ours are linked with.
target_link_options(proteus_compile INTERFACE LINKER:--as-needed)
if(PROTEUS_NATIVE)
    target_compile_options(proteus_compile INTERFACE -march=native)
endif()

if(PROTEUS_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "PROTEUS_FUZZ needs clang: use the fuzz preset, or set CMAKE_C_COMPILER=clang")
    endif()
    if(PROTEUS_SANITIZE)
        message(FATAL_ERROR "PROTEUS_FUZZ brings its own sanitizers: leave PROTEUS_SANITIZE empty")
    endif()
    set(proteus_sanitizers "-fsanitize=fuzzer-no-link,address,undefined")
elseif(PROTEUS_SANITIZE)
    set(proteus_sanitizers "-fsanitize=${PROTEUS_SANITIZE}")
endif()
if(proteus_sanitizers)
    target_compile_options(proteus_compile INTERFACE ${proteus_sanitizers} -fno-omit-frame-pointer
        -fno-sanitize-recover=undefined)
    target_link_options(proteus_compile INTERFACE ${proteus_sanitizers})
endif()

# Tests: one program each, in build/tests, registered with ctest under its own name.
#
# proteus_unit_test(NAME SOURCE... [THREADS] [TIMEOUT SECONDS])         one module, no network
# proteus_sim_test(NAME SOURCE... [THREADS] [LONG] [TIMEOUT SECONDS])   whole clusters in one thread
# proteus_cluster_test(NAME SOURCE... [PLAIN | SINGLE] [PACED | WAITS] [LONG] [TIMEOUT SECONDS])   real processes
# proteus_fuzz_target(NAME SOURCE... [CORPUS SOURCE...])               LLVMFuzzerTestOneInput
#
# Each takes LINK LIBRARY..., what it links beside libagileml.
#
# Labels: unit, sim, cluster, fuzz; and `threads` (THREADS, and every cluster test but SINGLE and PLAIN ones), which is
# what the tsan preset runs, and all that the thread sanitizer is built for. A SOURCE may be C++. Cluster tests find the
# programs in $PROTEUS_BIN. LONG ones begin before others, so that none of them is left for the end.
#
# With strict string checks strtod and the like read the whole string behind a number: in a price history of megabytes,
# once for each of its lines. So only fuzz targets, whose inputs are short, have these checks.
if(PROTEUS_FUZZ)
    set(proteus_strict_strings 1)
else()
    set(proteus_strict_strings 0)
endif()
set(proteus_test_environment
    "PROTEUS_BIN=${PROJECT_BINARY_DIR}/bin"
    "PROTEUS_SOURCE=${PROJECT_SOURCE_DIR}"
    "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=${proteus_strict_strings}"
    "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
    "TSAN_OPTIONS=suppressions='${PROJECT_SOURCE_DIR}/tests/tsan.supp':halt_on_error=1:second_deadlock_stack=1")

# Sanitized programs are several times slower; the others may be tested while the sanitized ones are built. The share of
# a test is its PROCESSORS for ctest: in halves of a processor, under sanitizers in thirds (scripts/test).
if(PROTEUS_SANITIZE)
    list(APPEND proteus_test_environment "PROTEUS_SANITIZED=${PROTEUS_SANITIZE}")
    set(proteus_timeout_factor 5)
    set(proteus_share 2)
    set(proteus_paced_share 4)
else()
    set(proteus_timeout_factor 2)
    set(proteus_share 1)
    set(proteus_paced_share 3)
endif()

# The tests' own sources are not optimized: that would take four times as long as it takes to run them so.
set(proteus_test_options -O0)

# One program for each test: most of a build after a change is linking. gold, a part of binutils, does it in a third of
# the time.
include(CheckLinkerFlag)
check_linker_flag(C -fuse-ld=gold PROTEUS_GOLD)
if(PROTEUS_GOLD)
    set(proteus_test_linker -fuse-ld=gold)
endif()

# What a test leaves behind when it fails or is ended by its timeout is killed.
if(NOT PROTEUS_FUZZ)
    add_executable(leash ${PROJECT_SOURCE_DIR}/tests/leash.c)
    target_link_libraries(leash PRIVATE proteus_compile)
    set_target_properties(leash PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endif()

function(proteus_test label default_timeout name)
    cmake_parse_arguments(PARSE_ARGV 3 test "THREADS;PLAIN;LONG" "TIMEOUT" "LINK")
    if(PROTEUS_FUZZ)
        return()
    endif()
    if(NOT test_TIMEOUT)
        set(test_TIMEOUT ${default_timeout})
    endif()
    math(EXPR timeout "${test_TIMEOUT} * ${proteus_timeout_factor}")
    set(labels ${label})
    if(test_THREADS)
        list(APPEND labels threads)
    endif()
    set(cost ${timeout})
    if(test_LONG)
        math(EXPR cost "${timeout} * 10")
    endif()
    add_executable(${name} ${test_UNPARSED_ARGUMENTS})
    target_link_libraries(${name} PRIVATE proteus_compile test_support ${test_LINK} agileml PkgConfig::CMOCKA)
    target_link_options(${name} PRIVATE ${proteus_test_linker})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    foreach(source IN LISTS test_UNPARSED_ARGUMENTS)
        if(source MATCHES "^[a-z0-9_]+_test\\.c$")
            set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${proteus_test_options}")
        endif()
    endforeach()
    if((PROTEUS_SANITIZE STREQUAL "thread" AND NOT test_THREADS) OR (PROTEUS_SANITIZE AND test_PLAIN))
        set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
        return()
    endif()
    add_dependencies(${name} leash)
    add_test(NAME ${name} COMMAND leash $<TARGET_FILE:${name}>)
    set_tests_properties(${name} PROPERTIES
        TIMEOUT ${timeout} COST ${cost} LABELS "${labels}" ENVIRONMENT "${proteus_test_environment}"
        PROCESSORS ${proteus_share} SKIP_RETURN_CODE 77) # of a test that can't run here
endfunction()

function(proteus_unit_test name)
    proteus_test(unit 30 ${name} ${ARGN})
endfunction()

function(proteus_sim_test name)
    proteus_test(sim 120 ${name} ${ARGN})
endfunction()

# SINGLE: the programs under test have one thread each, or others test their threads: no part of the tsan preset. PLAIN:
# other tests run the same code under the sanitizers: no part of the asan preset either. PACED: it measures speeds, or
# plays the market many times faster than real time, so that few others run beside it, and none that is PACED. Their sum
# is the least time that all tests take: they begin first. WAITS: it waits for most of its time under sanitizers, too.
function(proteus_cluster_test name)
    cmake_parse_arguments(PARSE_ARGV 1 cluster "PLAIN;SINGLE;PACED;WAITS" "" "")
    set(kind THREADS)
    if(cluster_PLAIN)
        set(kind PLAIN)
    elseif(cluster_SINGLE)
        set(kind "")
    endif()
    proteus_test(cluster 120 ${name} ${kind} ${cluster_UNPARSED_ARGUMENTS})
    if(TEST ${name} AND cluster_PACED)
        math(EXPR cost "${proteus_timeout_factor} * 10000")
        set_tests_properties(${name} PROPERTIES RESOURCE_LOCK pace PROCESSORS ${proteus_paced_share} COST ${cost})
    elseif(TEST ${name} AND cluster_WAITS)
        set_tests_properties(${name} PROPERTIES PROCESSORS 1)
    endif()
endfunction()

# Runs PROTEUS_FUZZ_SECONDS on the seeds that the CORPUS program writes first, if there is one, and on what earlier
# runs found; findings stay in build-fuzz/fuzz/NAME. Built by the fuzz preset only.
function(proteus_fuzz_target name)
    cmake_parse_arguments(PARSE_ARGV 1 fuzz "" "" "CORPUS;LINK")
    add_executable(${name} ${fuzz_UNPARSED_ARGUMENTS})
    target_link_libraries(${name} PRIVATE proteus_compile ${fuzz_LINK} agileml)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    set(work ${PROJECT_BINARY_DIR}/fuzz/${name})
    file(MAKE_DIRECTORY ${work}/corpus ${work}/seeds)
    math(EXPR timeout "${PROTEUS_FUZZ_SECONDS} + 60")
    add_test(NAME ${name} WORKING_DIRECTORY ${work}
        COMMAND ${name} -max_total_time=${PROTEUS_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
            -artifact_prefix=${work}/ ${work}/corpus ${work}/seeds)
    set_tests_properties(${name} PROPERTIES
        TIMEOUT ${timeout} LABELS fuzz PROCESSORS 3 ENVIRONMENT "${proteus_test_environment}")
    if(fuzz_CORPUS)
        add_executable(${name}_corpus ${fuzz_CORPUS})
        target_link_libraries(${name}_corpus PRIVATE proteus_compile ${fuzz_LINK} agileml)
        set_target_properties(${name}_corpus PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
        add_test(NAME ${name}_corpus COMMAND ${name}_corpus ${work}/seeds)
        set_tests_properties(${name}_corpus PROPERTIES LABELS fuzz FIXTURES_SETUP ${name}_seeds)
        set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED ${name}_seeds)
    endif()
endfunction()

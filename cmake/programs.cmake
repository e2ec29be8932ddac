# proteus_program(NAME SOURCE...)
# A program that users run, in build/bin, installed.
function(proteus_program name)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE proteus_compile agileml)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    install(TARGETS ${name} RUNTIME DESTINATION ${proteus_program_folder} COMPONENT programs)
    set_property(GLOBAL APPEND PROPERTY PROTEUS_PROGRAMS ${name})
endfunction()

# proteus_bench(NAME SOURCE...)
# A benchmark in build/bench. Times are for people to read; ctest runs some with --quick, to see that they work.
function(proteus_bench name)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE proteus_compile agileml)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
endfunction()

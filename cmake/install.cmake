# What `cmake --install` puts where: libraries, the public headers, agileml.pc, what find_package(agileml) reads, documents,
# man pages, completion, the examples. Programs are installed by proteus_program, the Python package by its folder. The
# components programs, library, development and python are Debian's packages (package.cmake).
install(TARGETS agileml ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(TARGETS agileml_shared
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(FILES include/agileml.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(FILES include/agileml/balance.h include/agileml/optimizers.h include/agileml/types.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/agileml COMPONENT development)

# The prefix is found from where agileml.pc lies: the tree may be installed under any --prefix and moved. A package's place
# is known, and the loader looks there.
if(PROTEUS_PACKAGE)
    set(agileml_pc_prefix ${CMAKE_INSTALL_PREFIX})
    set(agileml_pc_rpath "")
else()
    file(RELATIVE_PATH agileml_pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
    string(REGEX REPLACE "/$" "" agileml_pc_to_prefix "${agileml_pc_to_prefix}")
    set(agileml_pc_prefix "\${pcfiledir}/${agileml_pc_to_prefix}")
    set(agileml_pc_rpath " -Wl,-rpath,\${libdir}")
endif()
configure_file(cmake/agileml.pc.in agileml.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/agileml.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/agileml-config.cmake.in agileml-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/agileml PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/agileml-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/agileml-config.cmake ${PROJECT_BINARY_DIR}/agileml-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/agileml COMPONENT development)

# Documents and what they link to: every link in them leads somewhere in the installed tree too (docs_test).
if(NOT PROTEUS_PACKAGE) # Debian has it in /usr/share/common-licenses
    install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT programs)
endif()
install(FILES README.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT programs OPTIONAL)
install(FILES include/agileml.h DESTINATION ${CMAKE_INSTALL_DOCDIR}/include COMPONENT programs)
install(FILES include/agileml/optimizers.h DESTINATION ${CMAKE_INSTALL_DOCDIR}/include/agileml COMPONENT programs)
install(FILES examples/average.c examples/kmeans.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT development)
install(DIRECTORY examples/python DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT python
    FILES_MATCHING PATTERN "*.py")
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT programs OPTIONAL)
install(DIRECTORY deploy DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS COMPONENT programs OPTIONAL)

# Man pages and completion, from what the programs print with --help.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_Interpreter_FOUND AND NOT CMAKE_CROSSCOMPILING)
    get_property(programs GLOBAL PROPERTY PROTEUS_PROGRAMS)
    set(manual ${PROJECT_BINARY_DIR}/manual)
    add_custom_command(OUTPUT manual.stamp
        COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/manual --bin ${PROJECT_BINARY_DIR}/bin --out ${manual}
            --app-prefix=${proteus_app_prefix}
        COMMAND ${CMAKE_COMMAND} -E touch manual.stamp
        DEPENDS ${programs} scripts/manual COMMENT "Man pages and completion" VERBATIM)
    add_custom_target(manual ALL DEPENDS manual.stamp)
    if(PROTEUS_PACKAGE) # pages are compressed
        install(CODE "execute_process(COMMAND find \"${manual}/man1\" -name *.1 -exec gzip -9nf {} +)" COMPONENT programs)
    endif()
    install(DIRECTORY ${manual}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT programs OPTIONAL)
    install(DIRECTORY ${manual}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        COMPONENT programs OPTIONAL)
    set(zsh_folder site-functions)
    if(PROTEUS_PACKAGE)
        set(zsh_folder vendor-completions)
    endif()
    install(DIRECTORY ${manual}/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${zsh_folder} COMPONENT programs OPTIONAL)
endif()

if(PROTEUS_PACKAGE)
    include(cmake/package.cmake)
endif()

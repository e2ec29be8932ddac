# What `cmake --install` puts where: libraries, the public headers, agileml.pc, documents, the example.
# Programs are installed by proteus_program.
install(TARGETS agileml agileml_shared
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/agileml.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/agileml/balance.h include/agileml/optimizers.h include/agileml/types.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/agileml)

# The prefix is found from where agileml.pc lies: the tree may be installed under any --prefix and moved.
file(RELATIVE_PATH agileml_pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" agileml_pc_to_prefix "${agileml_pc_to_prefix}")
configure_file(cmake/agileml.pc.in agileml.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/agileml.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Documents and what they link to: every link in them leads somewhere in the installed tree too (docs_test).
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES README.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
install(FILES include/agileml.h DESTINATION ${CMAKE_INSTALL_DOCDIR}/include)
install(FILES include/agileml/optimizers.h DESTINATION ${CMAKE_INSTALL_DOCDIR}/include/agileml)
install(FILES examples/average.c examples/kmeans.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY examples/python DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples FILES_MATCHING PATTERN "*.py")
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
install(DIRECTORY deploy DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS OPTIONAL)

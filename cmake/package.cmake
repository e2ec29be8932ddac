# Debian's packages, by `cpack -G DEB` (scripts/package): proteus, libagileml0, libagileml-dev, python3-proteus. Links in
# /usr/bin, units, and what Debian wants in each package. The scripts that dpkg runs are in cmake/debian.
set(PROTEUS_PACKAGE_RELEASE 1 CACHE STRING "Debian's revision: of packages of one version the higher is newer")
set(PROTEUS_PACKAGE_CONTACT "maintainers@proteus.invalid" CACHE STRING "Address of the packages' maintainer")
set(package_version ${PROJECT_VERSION}-${PROTEUS_PACKAGE_RELEASE})
set(package_library libagileml${PROJECT_VERSION_MAJOR})
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} log -1 --format=%cD
    OUTPUT_VARIABLE package_date OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT package_date)
    set(package_date "Thu, 01 Jan 2026 00:00:00 +0000")
endif()
set(debian ${PROJECT_SOURCE_DIR}/cmake/debian)
set(made ${PROJECT_BINARY_DIR}/debian)

# Links to the programs.
get_property(programs GLOBAL PROPERTY PROTEUS_PROGRAMS)
foreach(program IN LISTS programs)
    set(link ${program})
    if(NOT program MATCHES "^(proteus|bidbrain|spotmarket)$")
        set(link ${proteus_app_prefix}${program})
    endif()
    file(MAKE_DIRECTORY ${made}/bin)
    file(CREATE_LINK ../${proteus_program_folder}/${program} ${made}/bin/${link} SYMBOLIC)
    install(FILES ${made}/bin/${link} DESTINATION bin COMPONENT programs)
endforeach()

foreach(unit IN ITEMS bidbrain proteus-controller proteus-node)
    file(READ deploy/ec2/${unit}.service text)
    string(REGEX REPLACE "/usr/local/bin/(mf|mlr|net|lda|gnn) " "/usr/bin/${proteus_app_prefix}\\1 " text "${text}")
    string(REPLACE "/usr/local/bin/" "/usr/bin/" text "${text}")
    file(WRITE ${made}/units/${unit}.service "${text}")
    install(FILES ${made}/units/${unit}.service DESTINATION lib/systemd/system COMPONENT programs)
endforeach()

configure_file(${debian}/changelog.in ${made}/changelog.Debian @ONLY)
execute_process(COMMAND gzip -9nkf ${made}/changelog.Debian)
set(CPACK_COMPONENTS_ALL programs library development python)
if(NOT TARGET python_binding)
    list(REMOVE_ITEM CPACK_COMPONENTS_ALL python)
endif()
set(name_programs proteus)
set(name_library ${package_library})
set(name_development libagileml-dev)
set(name_python python3-proteus)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    install(FILES ${debian}/copyright ${made}/changelog.Debian.gz
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name_${component}} COMPONENT ${component})
    file(GLOB control ${debian}/${component}/*)
    if(EXISTS ${debian}/lintian/${name_${component}})
        install(FILES ${debian}/lintian/${name_${component}} DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
            COMPONENT ${component})
    endif()
    string(TOUPPER ${component} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name_${component}})
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${control}")
    set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON)
endforeach()
# ar has no --strip of its own in cmake --install.
install(CODE "execute_process(COMMAND strip --strip-debug --enable-deterministic-archives
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libagileml.a\")" COMPONENT development)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS "ca-certificates")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "systemd")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# agileml.pc and the static library need theirs.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${package_library} (= ${package_version}), libzmq3-dev, libssl-dev, libjansson-dev, libsqlite3-dev, zlib1g-dev, libzstd-dev, libcurl4-openssl-dev | libcurl-dev, libexpat1-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "proteus, pkg-config")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "${package_library} (= ${package_version}), python3 (>= 3.11), python3-numpy, python3-cffi-backend")
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "proteus (= ${package_version})")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-cloudpickle")
# Tryton's client library is a Python package of the same name.
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONFLICTS "tryton-proteus")

set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION
"trains models on machines that may be taken away
Proteus trains machine-learning models through a parameter server on a few
reliable machines and many cheap ones that may be taken away at any time.
.
This package has the programs: proteus, which runs and watches jobs; the apps
proteus-mf (matrix factorization), proteus-mlr (logistic regression),
proteus-net (neural networks), proteus-lda (topic models) and proteus-gnn
(graph neural networks); bidbrain, which buys spot machines; spotmarket, a spot
market to try it on; and documents.")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
"elastic parameter server - library
AgileML is the library of Proteus, by which apps take part in training jobs
whose machines may be taken away.
.
This package has the shared library.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"elastic parameter server - development files
AgileML is the library of Proteus, by which apps take part in training jobs
whose machines may be taken away.
.
This package has headers, the static library, what pkg-config and CMake read,
and examples.")
set(CPACK_COMPONENT_PYTHON_DESCRIPTION
"elastic parameter server - Python package
Proteus trains machine-learning models on machines that may be taken away.
.
This package has the Python package proteus: apps with numpy arrays, jobs and
trained models from a script or a notebook.")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME proteus)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each has its own
set(CPACK_PACKAGE_CONTACT "The Proteus authors <${PROTEUS_PACKAGE_CONTACT}>")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${PROTEUS_PACKAGE_RELEASE})
set(CPACK_DEBIAN_PACKAGE_SOURCE proteus)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
include(CPack)

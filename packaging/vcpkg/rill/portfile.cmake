# rill's port for vcpkg, an overlay: `vcpkg install rill --overlay-ports=packaging/vcpkg` builds the checkout that it lies
# in. In a registry, vcpkg_from_github() or the archive of `./dev package` would give SOURCE_PATH instead.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)

# Optimised for programs of both kinds: the ABI is the same, and a debug build verifies rill itself.
set(VCPKG_BUILD_TYPE release)

set(options -Dcsv=disabled)  # libcsv is under the LGPL, and vcpkg links statically
foreach(feature IN ITEMS io lapack llvm onednn)
  if(feature IN_LIST FEATURES)
    list(APPEND options "-D${feature}=enabled")
  else()
    list(APPEND options "-D${feature}=disabled")
  endif()
endforeach()
set(tools "")
if("io" IN_LIST FEATURES)
  list(APPEND tools "protoc = '${CURRENT_HOST_INSTALLED_DIR}/tools/protobuf/protoc'"
    "flatc = '${CURRENT_HOST_INSTALLED_DIR}/tools/flatbuffers/flatc'")
endif()
if("llvm" IN_LIST FEATURES)
  list(APPEND tools "llvm-config = '${CURRENT_INSTALLED_DIR}/tools/llvm/llvm-config'")
endif()

vcpkg_configure_meson(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${options} -Dtests=disabled -Dbenchmarks=disabled -Dexamples=false
  ADDITIONAL_BINARIES ${tools}
)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/rill)
# It finds the prefix by where it lies itself, which has changed.
vcpkg_replace_string("${CURRENT_PACKAGES_DIR}/share/rill/rillConfig.cmake" "/\${_rill_libdir}/cmake/rill$" "/share/rill$")
if("io" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES rill AUTO_CLEAN)
endif()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")

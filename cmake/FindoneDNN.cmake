# SPDX-License-Identifier: Apache-2.0
# FindoneDNN: the target oneDNN::oneDNN. (Debian's own package file also demands OpenCL's headers, which only
# oneDNN's GPU part needs.) oneDNN is C++, and so is the boundary that keeps its exceptions from C programs.
find_path(ONEDNN_INCLUDE_DIR dnnl.h)
find_library(ONEDNN_LIBRARY dnnl)
mark_as_advanced(ONEDNN_INCLUDE_DIR ONEDNN_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS ONEDNN_LIBRARY ONEDNN_INCLUDE_DIR)
if(oneDNN_FOUND AND NOT TARGET oneDNN::oneDNN)
  add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
  set_target_properties(oneDNN::oneDNN PROPERTIES
    IMPORTED_LOCATION ${ONEDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES stdc++)
endif()

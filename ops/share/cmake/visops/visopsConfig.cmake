# find_package(visops) defines the target visops::visops: the headers, the library of operators, and
# the parts of LibTorch that they need. visops::torch is all of LibTorch, for programs that load
# packages of AOTInductor: those name libtorch, and that names its CUDA part where it has one.
#
# LibTorch is looked for beside the package, and in CMAKE_PREFIX_PATH and Torch_DIR as
# find_package(Torch) does. That command itself is not called: where torch was built with CUDA, it
# demands a CUDA toolkit, which neither compiling nor running these operators takes.

get_filename_component(_visops_package "${CMAKE_CURRENT_LIST_DIR}/../../.." REALPATH)

macro(_visops_not_found reason)
  set(visops_FOUND FALSE)
  set(visops_NOT_FOUND_MESSAGE "${reason}")
  return()
endmacro()

if(NOT UNIX)
  _visops_not_found("visops has no CMake configuration for ${CMAKE_SYSTEM_NAME}")
endif()

set(_visops_library
    "${_visops_package}/lib/${CMAKE_SHARED_LIBRARY_PREFIX}visops${CMAKE_SHARED_LIBRARY_SUFFIX}")
if(NOT EXISTS "${_visops_library}")
  _visops_not_found("${_visops_library} is not there: run `make build` in visops' source folder")
endif()

find_path(visops_TORCH_DIR TorchConfig.cmake
  HINTS ${Torch_DIR} ${CMAKE_PREFIX_PATH}
  PATHS "${_visops_package}/../torch"
  PATH_SUFFIXES Torch share/cmake/Torch
  DOC "The folder with LibTorch's TorchConfig.cmake")
if(NOT visops_TORCH_DIR)
  _visops_not_found("LibTorch was not found: add torch.utils.cmake_prefix_path to CMAKE_PREFIX_PATH")
endif()
get_filename_component(_visops_torch "${visops_TORCH_DIR}/../../.." ABSOLUTE)

if(NOT TARGET visops::visops)
  foreach(_visops_name IN ITEMS torch_cpu c10)
    add_library(visops::${_visops_name} SHARED IMPORTED)
    set_target_properties(visops::${_visops_name} PROPERTIES IMPORTED_LOCATION
      "${_visops_torch}/lib/${CMAKE_SHARED_LIBRARY_PREFIX}${_visops_name}${CMAKE_SHARED_LIBRARY_SUFFIX}")
  endforeach()

  # The program names the library but holds its path only where programs hold such paths.
  add_library(visops::library SHARED IMPORTED)
  set_target_properties(visops::library PROPERTIES
    IMPORTED_LOCATION "${_visops_library}"
    IMPORTED_NO_SONAME TRUE)

  # The library registers its operators when it is loaded, and no symbol of it need be used: without
  # a word to the linker, many would leave it out. One item, so that CMake keeps it together.
  set(_visops_link "")
  if(NOT APPLE)
    set(_visops_link
      "-Wl,--push-state,--no-as-needed -L\"${_visops_package}/lib\" -lvisops -Wl,--pop-state")
  endif()

  add_library(visops::visops INTERFACE IMPORTED)
  target_include_directories(visops::visops SYSTEM INTERFACE
    "${_visops_package}/include"
    "${_visops_torch}/include"
    "${_visops_torch}/include/torch/csrc/api/include")
  target_compile_features(visops::visops INTERFACE cxx_std_20)
  target_link_libraries(visops::visops INTERFACE
    ${_visops_link} visops::library visops::torch_cpu visops::c10)

  set(_visops_link "")
  if(NOT APPLE)
    set(_visops_link
      "-Wl,--push-state,--no-as-needed -L\"${_visops_torch}/lib\" -ltorch -Wl,--pop-state")
  endif()
  add_library(visops::torch INTERFACE IMPORTED)
  target_link_libraries(visops::torch INTERFACE ${_visops_link} visops::torch_cpu)
endif()

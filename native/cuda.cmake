# The cuda device: all of src/*/cuda. One addon serves machines with and without a GPU: the runtime is linked statically
# and looks for a driver when it is first called.
if(SIDA_CUDA STREQUAL "AUTO" OR SIDA_CUDA STREQUAL "ON")
  include(CheckLanguage)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90")
  endif()
  # Where none was found before, there may be one now, or CUDACXX names one.
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
  elseif(SIDA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SIDA_CUDA=ON, but there is no CUDA compiler (nvcc); CUDACXX names one outside PATH")
  endif()
endif()

file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS src/*/cuda/*.cc)
file(GLOB_RECURSE cuda_kernels CONFIGURE_DEPENDS src/*/cuda/*.cu)
# The sources that know whether there is a cuda device; all others compile the same with and without one, which a
# compiler cache makes use of.
set(cuda_aware src/engine/devices.cc ${cuda_sources})

if(SIDA_CUDA STREQUAL "EMULATED")
  file(GLOB_RECURSE emulation_sources CONFIGURE_DEPENDS emulation/*.cc)
  target_sources(sida_core PRIVATE ${cuda_sources} ${cuda_kernels} ${emulation_sources})
  # Tests run where they were built; without its instructions every fmaf() of a kernel is a call.
  set_source_files_properties(${cuda_kernels} PROPERTIES LANGUAGE CXX
    COMPILE_OPTIONS "-x;c++;-Wno-unknown-pragmas;-march=native")
  set_source_files_properties(${cuda_aware} ${cuda_kernels} ${emulation_sources} PROPERTIES
    INCLUDE_DIRECTORIES "${CMAKE_CURRENT_SOURCE_DIR}/emulation"
    COMPILE_DEFINITIONS "SIDA_WITH_CUDA;SIDA_CUDA_EMULATED")
  target_include_directories(sida_core INTERFACE emulation)
  target_compile_definitions(sida_core INTERFACE SIDA_WITH_CUDA SIDA_CUDA_EMULATED)
elseif(CMAKE_CUDA_COMPILER AND NOT SIDA_CUDA STREQUAL "OFF")
  # CMake before 3.26 does not know that this compiler speaks C++20.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  add_library(sida_kernels STATIC ${cuda_kernels})
  target_include_directories(sida_kernels PRIVATE src)
  # Without -fmad=false one kernel's product and sum might be fused and another's not: a row has the same bits in all.
  target_compile_options(sida_kernels PRIVATE -lineinfo -fmad=false --expt-relaxed-constexpr -Xcompiler=-Wall)
  set_target_properties(sida_kernels PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 20)
  target_sources(sida_core PRIVATE ${cuda_sources})
  set_source_files_properties(${cuda_aware} PROPERTIES
    COMPILE_OPTIONS "$<$<BOOL:${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}>:-isystem;$<JOIN:${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES},;-isystem;>>"
    COMPILE_DEFINITIONS SIDA_WITH_CUDA)
  target_include_directories(sida_core SYSTEM INTERFACE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_compile_definitions(sida_core INTERFACE SIDA_WITH_CUDA)
  target_link_libraries(sida_core PUBLIC sida_kernels)
  target_link_libraries(sida_kernels INTERFACE $<LINK_ONLY:sida_core>)  # for its errors
  set_target_properties(sida_core PROPERTIES CUDA_RUNTIME_LIBRARY Static)
endif()

# The device of a build: all of src/*/cuda, and devices.cc, the one source outside that knows whether there is a cuda
# device. `device` is the addon's, `test_device` that of tests and benches.
set(cuda_wish "AUTO")
if(DEFINED ENV{SIDA_CUDA})
  set(cuda_wish "$ENV{SIDA_CUDA}")
endif()
set(SIDA_CUDA "${cuda_wish}" CACHE STRING
  "The cuda device: ON, OFF, or AUTO (ON where there is a CUDA compiler and a GPU, else OFF)")
if(NOT SIDA_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SIDA_CUDA: expected AUTO, ON or OFF, found \"${SIDA_CUDA}\"")
endif()

file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS src/*/cuda/*.cc)
file(GLOB_RECURSE cuda_kernels CONFIGURE_DEPENDS src/*/cuda/*.cu)

set(with_cuda ${SIDA_CUDA})
if(SIDA_CUDA STREQUAL "AUTO")
  set(with_cuda OFF)
  # What the driver leaves, on Linux and in WSL. A build without a GPU would take minutes for kernels that never run.
  if(EXISTS /dev/nvidiactl OR EXISTS /dev/dxg)
    include(CheckLanguage)
    # Where none was found before, there may be one now, or CUDACXX names one.
    if(NOT CMAKE_CUDA_COMPILER)
      unset(CMAKE_CUDA_COMPILER CACHE)
    endif()
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(with_cuda ON)
    endif()
  endif()
endif()

if(with_cuda)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # Machine code for Hopper. The driver compiles the PTX of 8.0 for all other GPUs since Ampere, once.
    set(CMAKE_CUDA_ARCHITECTURES "80-virtual;90-real")
  endif()
  enable_language(CUDA)
  # CMake before 3.26 does not know that this compiler speaks C++20.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  add_library(sida_kernels STATIC ${cuda_kernels})
  target_include_directories(sida_kernels PRIVATE src)
  # Without -fmad=false one kernel's product and sum might be fused and another's not: a row has the same bits in all.
  target_compile_options(sida_kernels PRIVATE -lineinfo -fmad=false --expt-relaxed-constexpr -Xcompiler=-Wall)
  # One addon serves machines with and without a driver: the runtime is linked statically and looks for the driver when
  # it is first called.
  set_target_properties(sida_kernels PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 20)
  target_link_libraries(sida_kernels INTERFACE $<LINK_ONLY:sida_core>)  # for its errors
  add_library(sida_device_cuda OBJECT src/engine/devices.cc ${cuda_sources})
  target_include_directories(sida_device_cuda SYSTEM PUBLIC ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_compile_definitions(sida_device_cuda PUBLIC SIDA_WITH_CUDA)
  target_link_libraries(sida_device_cuda PUBLIC sida_kernels)
  set(device sida_device_cuda)
  set(test_device sida_device_cuda)
else()
  add_library(sida_device_none OBJECT src/engine/devices.cc)
  set(device sida_device_none)
  set(test_device sida_device_emulated)
endif()

# The kernels' language on the CPU, for tests without a GPU. The package has no emulation. A source has one language in
# a build.
set(emulation ${CMAKE_CURRENT_SOURCE_DIR}/test/emulation-runtime)
if(NOT with_cuda AND EXISTS ${emulation})
  file(GLOB_RECURSE emulation_sources CONFIGURE_DEPENDS ${emulation}/*.cc)
  add_library(sida_device_emulated OBJECT EXCLUDE_FROM_ALL
    src/engine/devices.cc ${cuda_sources} ${cuda_kernels} ${emulation_sources})
  # Tests run where they were built; without its instructions every fmaf() of a kernel is a call.
  set_source_files_properties(${cuda_kernels} PROPERTIES LANGUAGE CXX
    COMPILE_OPTIONS "-x;c++;-Wno-unknown-pragmas;-march=native")
  target_include_directories(sida_device_emulated PUBLIC ${emulation})
  target_compile_definitions(sida_device_emulated PUBLIC SIDA_WITH_CUDA SIDA_CUDA_EMULATED)
endif()

foreach(library ${device} sida_device_emulated)
  if(TARGET ${library})
    target_compile_options(${library} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${warnings}>)
    target_link_libraries(${library} PUBLIC sida_core)
  endif()
endforeach()

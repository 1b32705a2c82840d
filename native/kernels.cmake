# One instruction set a file, so that the rest of the program runs on any machine of the architecture.
set(avx512_options -mavx512f -mavx512bw -mavx512vl -mavx2 -mfma
  # GCC 12 takes the undefined sources inside its own AVX-512 intrinsics for uninitialized variables.
  -Wno-maybe-uninitialized -Wno-uninitialized)
# Every processor with AVX2 converts f16.
set(avx2_options -mavx2 -mfma -mf16c)
set(fast -O3)
if(SIDA_FUZZ)
  # Clang takes many minutes over instrumented vector code; the fuzzers run the plain kernels (SIDA_ISA=scalar).
  set(fast -O0 -fno-sanitize=all)
elseif(SIDA_SANITIZE)
  # GCC needs over three minutes for each of these files if it optimizes what it instruments, and ten seconds if not.
  set(fast -O0)
endif()
if(SIDA_FUZZ)
  set(plain -O2)
elseif(SIDA_SANITIZE)
  set(plain -O0)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Only tests run the plain kernels there, and -O3 takes three times as long.
  set(plain -O2)
else()
  set(plain -O3)
endif()

function(kernel_options name)
  set_source_files_properties(src/ops/cpu/kernels_${name}.cc PROPERTIES COMPILE_OPTIONS "${ARGN}"
    SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
kernel_options(scalar ${plain})
kernel_options(avx2 ${fast} ${avx2_options})
kernel_options(avx512 ${fast} ${avx512_options})
kernel_options(avx512vnni ${fast} ${avx512_options} -mavx512vnni)
kernel_options(avx512amx ${fast} ${avx512_options} -mavx512vnni -mamx-tile -mamx-int8 -mamx-bf16)

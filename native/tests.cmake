# Tests, fuzzers and benches: each is built by its name and by nothing else.
file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/*.cc)
list(FILTER fuzz_sources EXCLUDE REGEX "/fuzzer\\.cc$")

if(SIDA_FUZZ)
  add_library(sida_fuzz_readers STATIC ${fuzz_sources})
  target_include_directories(sida_fuzz_readers PUBLIC fuzz test)
  target_link_libraries(sida_fuzz_readers PUBLIC sida_core)
  foreach(reader safetensors pytorch gguf index config manifest weights predictor)
    add_executable(fuzz_${reader} fuzz/fuzzer.cc)
    target_compile_definitions(fuzz_${reader} PRIVATE SIDA_READER=read_${reader})
    target_link_libraries(fuzz_${reader} PRIVATE sida_fuzz_readers sida_device_none)
    target_link_options(fuzz_${reader} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()

# The fixtures' archives, unpacked.
set(fixtures ${CMAKE_CURRENT_BINARY_DIR}/fixtures)
file(GLOB archives CONFIGURE_DEPENDS ../test/fixtures/oracle/*.tar.gz)
foreach(archive ${archives})
  get_filename_component(name ${archive} NAME_WE)
  list(APPEND unpacked ${fixtures}/${name}.unpacked)
  add_custom_command(OUTPUT ${fixtures}/${name}.unpacked DEPENDS ${archive} VERBATIM
    COMMAND ${CMAKE_COMMAND} -E make_directory ${fixtures}
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${fixtures}/${name}
    COMMAND ${CMAKE_COMMAND} -E chdir ${fixtures} ${CMAKE_COMMAND} -E tar xzf ${archive}
    COMMAND ${CMAKE_COMMAND} -E touch ${fixtures}/${name}.unpacked)
endforeach()

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS test/*.cc)
list(FILTER test_sources EXCLUDE REGEX "/emulation-runtime/")
# The tests replay the fuzzers' corpus.
add_executable(sida_tests EXCLUDE_FROM_ALL ${test_sources} ${fuzz_sources} ${unpacked})
target_include_directories(sida_tests PRIVATE test fuzz)
target_include_directories(sida_tests SYSTEM PRIVATE third_party)
# In one source alone: a compiler cache knows the others again in another checkout.
set_source_files_properties(test/support/repo_paths.cc PROPERTIES
  COMPILE_DEFINITIONS "SIDA_REPO_DIR=\"${CMAKE_CURRENT_SOURCE_DIR}/..\";SIDA_FIXTURES_DIR=\"${fixtures}\"")
# Tests set the fields that they are about.
target_compile_options(sida_tests PRIVATE ${warnings} -Wno-missing-field-initializers)
target_link_libraries(sida_tests PRIVATE sida_core ${test_device})
# Names in the unnamed namespaces of a folder's tests differ, also from those of its fixtures.
set_target_properties(sida_tests PROPERTIES UNITY_BUILD ${SIDA_UNITY} UNITY_BUILD_BATCH_SIZE 4)
# doctest and the standard library take half of a test's compilation.
target_precompile_headers(sida_tests PRIVATE test/support/test.h <random> <ranges>)
set_source_files_properties(test/support/test_main.cc test/support/repo_paths.cc test/support/allocation_count.cc
  ${fuzz_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)

file(GLOB bench_sources CONFIGURE_DEPENDS bench/*_bench.cc)
foreach(source ${bench_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_include_directories(${name} PRIVATE test)
  target_include_directories(${name} SYSTEM PRIVATE third_party)
  target_link_libraries(${name} PRIVATE sida_core ${device})
  list(APPEND benches ${name})
endforeach()
add_custom_target(sida_benches DEPENDS ${benches})

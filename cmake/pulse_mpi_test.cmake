# pulse_mpi_test(<name> RANKS <n>.. SOURCES .. DEPS .. [LABELS ..] [TIMEOUT seconds])
#   makes a GoogleTest program whose every process is a rank (collective/mpi/mpi_test_main.h gives it
#   the session), and registers it as <name>.ranks<n> for each n. Nothing without PULSE_MPI.
# pulse_mpi_environment(<test>..)
#   sets what any test needs that starts mpirun.

# Tests run as root in containers, with more ranks than cores. Without single copy, as the kernel
# call behind it is forbidden in many containers, which Open MPI notices only amid a transfer. Open
# MPI leaks by design.
function(pulse_mpi_environment)
  set(environment
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_btl_vader_single_copy_mechanism=none
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    ASAN_OPTIONS=detect_leaks=0)
  set_tests_properties(${ARGN} PROPERTIES ENVIRONMENT "${environment}")
endfunction()

function(pulse_mpi_test name)
  if(NOT PULSE_BUILD_TESTS OR NOT PULSE_MPI)
    return()
  endif()
  cmake_parse_arguments(A "" "TIMEOUT" "RANKS;SOURCES;DEPS;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  _pulse_resolve(deps ${A_DEPS})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE pulse_flags ${deps} pulse::collective_mpi_test_main
                                        GTest::gmock)
  target_compile_options(${name} PRIVATE ${PULSE_TEST_OPTIONS})
  pulse_precompile(${name})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 60)
  endif()
  foreach(ranks IN LISTS A_RANKS)
    set(test ${name}.ranks${ranks})
    add_test(NAME ${test} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
                                  $<TARGET_FILE:${name}>)
    set_tests_properties(${test} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT}
                                            PROCESSORS ${ranks})
    pulse_mpi_environment(${test})
  endforeach()
endfunction()

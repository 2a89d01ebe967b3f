# Whether and how CUDA is built (docs/gpu.md).
#
#   PULSE_CUDA     AUTO (on where nvcc is found), ON (an error where not), OFF
#   PULSE_HAS_CUDA is set to the outcome, PULSE_CUDA_NAMES to "sm_80, sm_90"
#   pulse_cuda_module(<name> SOURCES .. HEADERS .. DEPS .. [PRIVATE_DEPS ..])
#     a pulse_module with .cu sources: their flags are the compiler's half of the arithmetic contract
#     (kernels/cuda/ptx_test.py fails when one of these is taken away).
set(PULSE_CUDA "AUTO" CACHE STRING "AUTO | ON | OFF: build the CUDA kernels, and NCCL where present")
set_property(CACHE PULSE_CUDA PROPERTY STRINGS AUTO ON OFF)

set(PULSE_HAS_CUDA OFF)
if(PULSE_CUDA STREQUAL "ON" OR (PULSE_CUDA STREQUAL "AUTO" AND NOT PULSE_SANITIZE))
  # Ampere and Hopper, machine code only: what is not listed is not claimed to work. Both come from
  # one PTX, as no kernel asks for more than Ampere has: that takes a quarter less time than two. Set
  # before the language is enabled, as CMake's own default is older than what CUDA 13 compiles.
  if(CMAKE_CUDA_ARCHITECTURES)
    string(REGEX REPLACE "([0-9]+)-real" "sm_\\1" PULSE_CUDA_NAMES "${CMAKE_CUDA_ARCHITECTURES}")
    string(REPLACE ";" ", " PULSE_CUDA_NAMES "${PULSE_CUDA_NAMES}")
    set(PULSE_CUDA_GENCODE)
  else()
    set(CMAKE_CUDA_ARCHITECTURES OFF)
    set(PULSE_CUDA_NAMES "sm_80, sm_90")
    set(PULSE_CUDA_GENCODE "-gencode=arch=compute_80,code=[sm_80,sm_90]")
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(PULSE_HAS_CUDA ON)
  elseif(PULSE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PULSE_CUDA is ON, but there is no nvcc: put it on PATH, or set CUDACXX")
  endif()
endif()
message(STATUS "CUDA: ${PULSE_HAS_CUDA}")

# relaxed-constexpr: std::bit_cast and std::min are constexpr functions of the host's library.
set(PULSE_CUDA_ARITHMETIC --fmad=false -ftz=false -prec-div=true -prec-sqrt=true)
set(PULSE_CUDA_FLAGS -std=c++20 ${PULSE_CUDA_ARITHMETIC} --expt-relaxed-constexpr -Werror=all-warnings
    "-Xcompiler=-Wall,-Wextra,-Wshadow,-ffp-contract=off")

function(pulse_cuda_module name)
  cmake_parse_arguments(A "" "" "SOURCES;HEADERS;DEPS;PRIVATE_DEPS" ${ARGN})
  pulse_module(${name} SOURCES ${A_SOURCES} HEADERS ${A_HEADERS} DEPS ${A_DEPS}
               PRIVATE_DEPS ${A_PRIVATE_DEPS} CUDA::cudart_static)
  target_compile_options(pulse_${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${PULSE_CUDA_FLAGS};${PULSE_CUDA_GENCODE}>")
endfunction()

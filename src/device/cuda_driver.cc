#include "device/cuda_driver.h"

#include <cuda_runtime_api.h>

namespace pulse {
namespace {

static_assert(cudaErrorInvalidValue == kDeviceInvalidValue);
static_assert(cudaErrorMemoryAllocation == kDeviceOutOfMemory);
static_assert(cudaErrorNotReady == kDeviceNotReady);

cudaStream_t Raw(DeviceStream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}
cudaEvent_t Raw(DeviceEvent event) {
  return static_cast<cudaEvent_t>(event.handle);
}

// The runtime remembers an error for the next cudaGetLastError of anyone; what we return is enough.
DeviceCode Taken(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) cudaGetLastError();
  return error;
}

}  // namespace

DeviceDriver CudaDriver() {
  DeviceDriver t;
  t.count_devices = [](int* count) { return Taken(cudaGetDeviceCount(count)); };
  t.set_device = [](int device) { return Taken(cudaSetDevice(device)); };
  t.get_device = [](int* device) { return Taken(cudaGetDevice(device)); };
  t.allocate = [](void** at, uint64_t bytes) { return Taken(cudaMalloc(at, bytes)); };
  t.release = [](void* at) { return Taken(cudaFree(at)); };
  t.allocate_pinned = [](void** at, uint64_t bytes) { return Taken(cudaMallocHost(at, bytes)); };
  t.release_pinned = [](void* at) { return Taken(cudaFreeHost(at)); };
  t.create_stream = [](DeviceStream* stream) {
    cudaStream_t raw = nullptr;
    const cudaError_t error = cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking);
    if (error == cudaSuccess) stream->handle = raw;
    return Taken(error);
  };
  t.destroy_stream = [](DeviceStream stream) { return Taken(cudaStreamDestroy(Raw(stream))); };
  t.create_event = [](DeviceEvent* event) {
    cudaEvent_t raw = nullptr;
    const cudaError_t error = cudaEventCreateWithFlags(&raw, cudaEventDisableTiming);
    if (error == cudaSuccess) event->handle = raw;
    return Taken(error);
  };
  t.destroy_event = [](DeviceEvent event) { return Taken(cudaEventDestroy(Raw(event))); };
  t.record = [](DeviceEvent event, DeviceStream stream) {
    return Taken(cudaEventRecord(Raw(event), Raw(stream)));
  };
  t.query = [](DeviceEvent event) { return Taken(cudaEventQuery(Raw(event))); };
  t.wait = [](DeviceStream stream, DeviceEvent event) {
    return Taken(cudaStreamWaitEvent(Raw(stream), Raw(event), 0));
  };
  t.copy = [](void* to, const void* from, uint64_t bytes, DeviceStream stream) {
    return Taken(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, Raw(stream)));
  };
  t.fill = [](void* at, uint8_t value, uint64_t bytes, DeviceStream stream) {
    return Taken(cudaMemsetAsync(at, value, bytes, Raw(stream)));
  };
  t.describe = [](DeviceCode code) {
    return std::string(cudaGetErrorString(static_cast<cudaError_t>(code)));
  };
  return t;
}

Status SelectCudaDevice(const DeviceDriver& driver, int device) {
  int count = 0;
  const DeviceCode code = driver.count_devices(&count);
  if (code != 0 || count == 0) {
    return FailedPrecondition("there is no CUDA device here ({}); use --device cpu",
                              code != 0 ? driver.describe(code) : "the driver lists none");
  }
  if (device < 0 || device >= count) {
    return InvalidArgument("CUDA device {} is not here; there are {}, numbered from 0", device,
                           count);
  }
  return DeviceStatus(driver, driver.set_device(device), "selecting the CUDA device");
}

std::string CudaRuntime() {
  return fmt::format("CUDA {}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

CudaFacts ProbeCuda() {
  CudaFacts facts;
  facts.words = CudaRuntime() + ": ";
  const cudaError_t error = cudaGetDeviceCount(&facts.devices);
  if (error != cudaSuccess || facts.devices == 0) {
    Taken(error);
    facts.devices = 0;
    facts.words += fmt::format("no device ({})", cudaGetErrorString(error));
    return facts;
  }
  facts.words += fmt::format("{} {}", facts.devices, facts.devices == 1 ? "device" : "devices");
  for (int device = 0; device < facts.devices; ++device) {
    cudaDeviceProp properties;
    if (Taken(cudaGetDeviceProperties(&properties, device)) != cudaSuccess) continue;
    facts.words +=
        fmt::format(", {} (sm_{}{}, {:.1f} GiB)", properties.name, properties.major,
                    properties.minor, static_cast<double>(properties.totalGlobalMem) / (1 << 30));
  }
  return facts;
}

}  // namespace pulse

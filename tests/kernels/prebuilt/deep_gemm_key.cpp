// Asks the locked DeepGEMM for the name of a cache entry, without a GPU: its own compiler class is made and told to build.
// Built twice: with -DDEVICE what is preloaded, a device that is not there; without it the library that asks.
#ifdef DEVICE

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}

extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    std::memset(properties, 0, sizeof(*properties));
    std::sscanf(std::getenv("FAKE_CAPABILITY"), "%d.%d", &properties->major, &properties->minor);
    properties->multiProcessorCount = 132;
    return cudaSuccess;
}

#else

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>

// Declarations only: everything is defined in deep_gemm/_C.so.
namespace deep_gemm {
using std::filesystem::path;

struct KernelRuntime {
    static path cuda_home;
};

struct Compiler {
    std::string signature, flags;
    path cache_dir_path;
    static void prepare_init(const std::string& library_root, const std::string& cuda_home);
    virtual ~Compiler();
    std::shared_ptr<KernelRuntime> build(const std::string& name, const std::string& code) const;
    virtual void compile(const std::string&, const path&, const path&, const std::optional<path>&) const = 0;
};

struct NVCCCompiler final : Compiler {
    path nvcc_path;
    NVCCCompiler();
    ~NVCCCompiler() override;
    void compile(const std::string&, const path&, const path&, const std::optional<path>&) const override;
};

struct IncludeParser {
    std::unordered_map<std::string, std::optional<std::string>> cache;
    static path library_include_path;
    std::string get_hash_value(const std::string& code, const bool& exclude_code);
};
}  // namespace deep_gemm

// Prints the hash of the headers, the compiler, its flags, and why the result could not be loaded: there is no driver.
extern "C" void ask(const char* library_root, const char* cuda_home, const char* source) {
    const std::string root = library_root, cuda = cuda_home;
    std::ifstream file(source);
    std::stringstream text;
    text << file.rdbuf();
    deep_gemm::Compiler::prepare_init(root, cuda);
    deep_gemm::KernelRuntime::cuda_home = cuda;
    deep_gemm::IncludeParser::library_include_path = deep_gemm::path(root) / "include";
    try {
        deep_gemm::IncludeParser parser;
        const auto hash = parser.get_hash_value(text.str(), true);
        const deep_gemm::NVCCCompiler compiler;
        std::printf("%s\n%s\n%s\n", hash.c_str(), compiler.signature.c_str(), compiler.flags.c_str());
        std::fflush(stdout);
        compiler.build("probe", "// Includes' hash value: " + hash + "\n" + text.str());
    } catch (const std::exception& error) {
        std::printf("%s\n", error.what());
    }
}

#endif

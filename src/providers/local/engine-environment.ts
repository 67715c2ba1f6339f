/**
 * What the engine process sees of the daemon's environment: what its libraries need to find themselves, a folder for temporary files
 * and the graphics processor. Everything else stays behind, above all the keys of cloud providers.
 */
export function engineEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => NAMES.has(name.toUpperCase()) || PREFIXES.some((prefix) => name.startsWith(prefix))));
}

const NAMES = new Set([
  ...['PATH', 'HOME', 'LANG', 'TZ', 'TMPDIR', 'TMP', 'TEMP', 'USERPROFILE', 'SYSTEMROOT', 'WINDIR', 'LOCALAPPDATA', 'PROGRAMDATA'],
  ...['LD_LIBRARY_PATH', 'DYLD_LIBRARY_PATH', 'XDG_DATA_DIRS', 'XDG_RUNTIME_DIR', 'OMP_NUM_THREADS', 'NODE_V8_COVERAGE'],
]);
const PREFIXES = ['LC_', 'CUDA_', 'NVIDIA_', 'GGML_', 'VK_', 'HIP_', 'ROCR_', 'HSA_'];

import { ALLOCATOR } from '../../home/allocator.ts';

/**
 * Selects the environment of the engine process: variables for its libraries, temporary files and
 * the GPU. All other variables are dropped, above all the keys of cloud providers. The list has
 * whole names, because a prefix could match a secret.
 */
export function engineEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const given = Object.entries(env).filter(([name]) => NAMES.has(name.toUpperCase()));
  return { ...ALLOCATOR, ...Object.fromEntries(given) };
}

const NAMES = new Set([
  ...Object.keys(ALLOCATOR),
  'PATH',
  'HOME',
  'LANG',
  'TZ',
  'TMPDIR',
  'TMP',
  'TEMP',
  'USERPROFILE',
  'SYSTEMROOT',
  'WINDIR',
  'LOCALAPPDATA',
  'PROGRAMDATA',
  'LC_ALL',
  'LC_CTYPE',
  'LC_MESSAGES',
  'LC_NUMERIC',
  'CUDA_VISIBLE_DEVICES',
  'CUDA_DEVICE_ORDER',
  'CUDA_PATH',
  'CUDA_HOME',
  'CUDA_CACHE_PATH',
  'CUDA_MODULE_LOADING',
  'NVIDIA_VISIBLE_DEVICES',
  'NVIDIA_DRIVER_CAPABILITIES',
  'GGML_CUDA_ENABLE_UNIFIED_MEMORY',
  'GGML_CUDA_FORCE_MMQ',
  'GGML_CUDA_NO_PINNED',
  'GGML_VK_VISIBLE_DEVICES',
  'VK_ICD_FILENAMES',
  'VK_DRIVER_FILES',
  'VK_LAYER_PATH',
  'HIP_VISIBLE_DEVICES',
  'HIP_PATH',
  'ROCR_VISIBLE_DEVICES',
  'HSA_OVERRIDE_GFX_VERSION',
  'HSA_ENABLE_SDMA',
  'LD_LIBRARY_PATH',
  'DYLD_LIBRARY_PATH',
  'XDG_DATA_DIRS',
  'XDG_RUNTIME_DIR',
  'OMP_NUM_THREADS',
  'NODE_V8_COVERAGE',
]);

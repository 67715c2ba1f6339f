/**
 * What the engine process sees of the daemon's environment: what its libraries need to find themselves, a folder for temporary files
 * and the graphics processor. Everything else stays behind, above all the keys of cloud providers. Names are listed one by one: a prefix
 * would let through whatever else begins with it.
 */
export function engineEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => NAMES.has(name.toUpperCase())));
}

const NAMES = new Set([
  ...[
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
  ],
  ...['LC_ALL', 'LC_CTYPE', 'LC_MESSAGES', 'LC_NUMERIC'],
  ...[
    'CUDA_VISIBLE_DEVICES',
    'CUDA_DEVICE_ORDER',
    'CUDA_PATH',
    'CUDA_HOME',
    'CUDA_CACHE_PATH',
    'CUDA_MODULE_LOADING',
  ],
  ...[
    'NVIDIA_VISIBLE_DEVICES',
    'NVIDIA_DRIVER_CAPABILITIES',
    'GGML_CUDA_ENABLE_UNIFIED_MEMORY',
    'GGML_CUDA_FORCE_MMQ',
    'GGML_CUDA_NO_PINNED',
  ],
  ...['GGML_VK_VISIBLE_DEVICES', 'VK_ICD_FILENAMES', 'VK_DRIVER_FILES', 'VK_LAYER_PATH'],
  ...[
    'HIP_VISIBLE_DEVICES',
    'HIP_PATH',
    'ROCR_VISIBLE_DEVICES',
    'HSA_OVERRIDE_GFX_VERSION',
    'HSA_ENABLE_SDMA',
  ],
  ...[
    'LD_LIBRARY_PATH',
    'DYLD_LIBRARY_PATH',
    'XDG_DATA_DIRS',
    'XDG_RUNTIME_DIR',
    'OMP_NUM_THREADS',
    'NODE_V8_COVERAGE',
  ],
]);

/**
 * The parts of the C interface of llama.cpp that the engine uses, as in `include/llama.h` of one
 * release: docs/decisions/0096. Another release can have other layouts, so it needs its own table.
 */

/** What `llama_version` says, and the release in the names of the libraries. */
export const RELEASE = { version: '0.5.0-dev', files: '0.5.0' };

/** An address in the memory of the process. Null: none. */
export type Pointer = bigint | null;
/** An argument that a function reads or writes: an address, or the bytes of an array. */
type Memory = Pointer | NodeJS.TypedArray;

/** The fields of a structure in order: the type, and the value that llama.cpp gives it. */
export type Layout = Readonly<Record<string, readonly [type: string, usual: unknown]>>;

const NONE = ['void*', null] as const;
const OFF = ['bool', false] as const;
const ON = ['bool', true] as const;
const whole = (usual: number) => ['int32_t', usual] as const;
const count = (usual: number) => ['uint32_t', usual] as const;
const real = (usual: number) => ['float', usual] as const;

export const LAYOUTS = {
  llama_model_params: {
    devices: NONE,
    tensor_buft_overrides: NONE,
    n_gpu_layers: whole(-1),
    split_mode: whole(1),
    load_mode: whole(-1),
    lazy_mode: whole(1),
    main_gpu: whole(0),
    tensor_split: NONE,
    progress_callback: NONE,
    progress_callback_user_data: NONE,
    kv_overrides: NONE,
    vocab_only: OFF,
    check_tensors: OFF,
    use_extra_bufts: ON,
    no_host: OFF,
    no_alloc: OFF,
    load_mtp: OFF,
  },
  llama_context_params: {
    n_ctx: count(512),
    n_batch: count(2048),
    n_ubatch: count(512),
    n_seq_max: count(1),
    n_rs_seq: count(0),
    n_outputs_max: count(0),
    n_outputs_max_per_seq: count(1),
    n_threads: whole(4),
    n_threads_batch: whole(4),
    ctx_type: whole(0),
    rope_scaling_type: whole(-1),
    pooling_type: whole(-1),
    attention_type: whole(-1),
    flash_attn_type: whole(-1),
    rope_freq_base: real(0),
    rope_freq_scale: real(0),
    yarn_ext_factor: real(-1),
    yarn_attn_factor: real(-1),
    yarn_beta_fast: real(-1),
    yarn_beta_slow: real(-1),
    yarn_orig_ctx: count(0),
    defrag_thold: real(-1),
    cb_eval: NONE,
    cb_eval_user_data: NONE,
    type_k: whole(1),
    type_v: whole(1),
    abort_callback: NONE,
    abort_callback_data: NONE,
    embeddings: OFF,
    offload_kqv: ON,
    no_perf: ON,
    op_offload: ON,
    swa_full: ON,
    kv_unified: OFF,
    samplers: NONE,
    n_samplers: ['size_t', 0],
    ctx_other: NONE,
  },
  llama_sampler_chain_params: { no_perf: ON },
} as const satisfies Record<string, Layout>;

/** Structures whose values llama.cpp does not give. */
export const STRUCTURES = {
  llama_batch: {
    n_tokens: 'int32_t',
    token: 'void*',
    embd: 'void*',
    pos: 'void*',
    n_seq_id: 'void*',
    seq_id: 'void*',
    logits: 'void*',
  },
  llama_token_data_array: { data: 'void*', size: 'size_t', selected: 'int64_t', sorted: 'bool' },
} as const;

/** Sizes in bytes. All fields have fixed sizes, so each 64-bit system has the same ones. */
export const SIZES: Readonly<Record<keyof typeof LAYOUTS | keyof typeof STRUCTURES, number>> = {
  llama_model_params: 80,
  llama_context_params: 160,
  llama_sampler_chain_params: 1,
  llama_batch: 56,
  llama_token_data_array: 32,
};

/** Result and parameters of each function, by its library. */
export const FUNCTIONS = {
  llama: {
    llama_version: 'const char* ()',
    llama_backend_init: 'void ()',
    llama_log_set: 'void (void*, void*)',
    llama_model_default_params: 'llama_model_params ()',
    llama_context_default_params: 'llama_context_params ()',
    llama_sampler_chain_default_params: 'llama_sampler_chain_params ()',
    llama_model_load_from_file: 'void* (const char*, llama_model_params)',
    llama_init_from_model: 'void* (void*, llama_context_params)',
    llama_free: 'void (void*)',
    llama_adapter_lora_init: 'void* (void*, const char*)',
    llama_set_adapters_lora: 'int32_t (void*, void*, size_t, void*)',
    llama_model_get_vocab: 'void* (void*)',
    llama_model_n_ctx_train: 'int32_t (void*)',
    llama_model_n_embd_out: 'int32_t (void*)',
    llama_model_size: 'uint64_t (void*)',
    llama_model_has_encoder: 'bool (void*)',
    llama_model_has_decoder: 'bool (void*)',
    llama_model_is_recurrent: 'bool (void*)',
    llama_model_is_hybrid: 'bool (void*)',
    llama_vocab_n_tokens: 'int32_t (void*)',
    llama_vocab_bos: 'int32_t (void*)',
    llama_vocab_eos: 'int32_t (void*)',
    llama_vocab_sep: 'int32_t (void*)',
    llama_vocab_fim_pre: 'int32_t (void*)',
    llama_vocab_fim_suf: 'int32_t (void*)',
    llama_vocab_fim_mid: 'int32_t (void*)',
    llama_vocab_fim_rep: 'int32_t (void*)',
    llama_vocab_fim_sep: 'int32_t (void*)',
    llama_vocab_get_add_bos: 'bool (void*)',
    llama_vocab_is_eog: 'bool (void*, int32_t)',
    llama_vocab_is_control: 'bool (void*, int32_t)',
    llama_vocab_get_text: 'const char* (void*, int32_t)',
    llama_tokenize: 'int32_t (void*, void*, int32_t, void*, int32_t, bool, bool)',
    llama_token_to_piece: 'int32_t (void*, int32_t, void*, int32_t, int32_t, bool)',
    llama_detokenize: 'int32_t (void*, void*, int32_t, void*, int32_t, bool, bool)',
    llama_pooling_type: 'int32_t (void*)',
    llama_get_memory: 'void* (void*)',
    llama_memory_clear: 'void (void*, bool)',
    llama_memory_seq_rm: 'bool (void*, int32_t, int32_t, int32_t)',
    llama_memory_seq_pos_min: 'int32_t (void*, int32_t)',
    llama_state_seq_get_size_ext: 'size_t (void*, int32_t, uint32_t)',
    llama_state_seq_get_data_ext: 'size_t (void*, void*, size_t, int32_t, uint32_t)',
    llama_state_seq_set_data_ext: 'size_t (void*, void*, size_t, int32_t, uint32_t)',
    llama_state_seq_save_file: 'size_t (void*, const char*, int32_t, void*, size_t)',
    llama_state_seq_load_file: 'size_t (void*, const char*, int32_t, void*, size_t, void*)',
    llama_batch_init: 'llama_batch (int32_t, int32_t, int32_t)',
    llama_batch_free: 'void (llama_batch)',
    llama_decode: 'int32_t (void*, llama_batch)',
    llama_set_n_threads: 'void (void*, int32_t, int32_t)',
    llama_attach_threadpool: 'void (void*, void*, void*)',
    llama_set_abort_callback: 'void (void*, void*, void*)',
    llama_get_logits_ith: 'void* (void*, int32_t)',
    llama_get_embeddings_seq: 'void* (void*, int32_t)',
    llama_get_embeddings_ith: 'void* (void*, int32_t)',
    llama_sampler_chain_init: 'void* (llama_sampler_chain_params)',
    llama_sampler_chain_add: 'void (void*, void*)',
    llama_sampler_chain_remove: 'void* (void*, int32_t)',
    llama_sampler_sample: 'int32_t (void*, void*, int32_t)',
    llama_sampler_accept: 'void (void*, int32_t)',
    llama_sampler_apply: 'void (void*, _Inout_ llama_token_data_array*)',
    llama_sampler_reset: 'void (void*)',
    llama_sampler_free: 'void (void*)',
    llama_sampler_init_greedy: 'void* ()',
    llama_sampler_init_dist: 'void* (uint32_t)',
    llama_sampler_init_top_k: 'void* (int32_t)',
    llama_sampler_init_top_p: 'void* (float, size_t)',
    llama_sampler_init_min_p: 'void* (float, size_t)',
    llama_sampler_init_typical: 'void* (float, size_t)',
    llama_sampler_init_top_n_sigma: 'void* (float)',
    llama_sampler_init_xtc: 'void* (float, float, size_t, uint32_t)',
    llama_sampler_init_temp_ext: 'void* (float, float, float)',
    llama_sampler_init_grammar: 'void* (void*, const char*, const char*)',
    llama_sampler_init_penalties: 'void* (int32_t, int32_t, float, float, float)',
    llama_sampler_init_dry: 'void* (void*, float, float, int32_t, int32_t, const char**, size_t)',
    llama_sampler_init_logit_bias: 'void* (int32_t, int32_t, void*)',
  },
  ggml: {
    ggml_backend_load: 'void* (const char*)',
    ggml_backend_load_all_from_path: 'void (const char*)',
    ggml_backend_dev_count: 'size_t ()',
    ggml_backend_dev_get: 'void* (size_t)',
  },
  base: {
    ggml_backend_dev_type: 'int32_t (void*)',
    ggml_backend_dev_memory: 'void (void*, void*, void*)',
    ggml_backend_dev_backend_reg: 'void* (void*)',
    ggml_backend_reg_name: 'const char* (void*)',
    ggml_backend_reg_get_proc_address: 'void* (void*, const char*)',
    ggml_threadpool_params_init: 'void (void*, int32_t)',
  },
} as const;

/** A type of C in TypeScript. Whole numbers of 64 bits are numbers up to 2^53. */
type Value<T> = T extends 'void'
  ? undefined
  : T extends 'bool'
    ? boolean
    : T extends 'const char*'
      ? string
      : T extends 'const char**'
        ? readonly string[]
        : T extends 'void*'
          ? Pointer
          : T extends 'llama_batch'
            ? Batch
            : T extends '_Inout_ llama_token_data_array*'
              ? Fields<(typeof STRUCTURES)['llama_token_data_array']>
              : T extends keyof typeof LAYOUTS
                ? { [K in keyof (typeof LAYOUTS)[T]]: FieldOf<(typeof LAYOUTS)[T][K]> }
                : number;
type Fields<S> = { -readonly [K in keyof S]: Value<S[K]> };
type FieldOf<R> = R extends readonly [infer T, unknown] ? Value<T> : never;
type Taken<T> = T extends 'void*' ? Memory : Value<T>;
type Parameters<S> = S extends ''
  ? []
  : S extends `${infer First}, ${infer Others}`
    ? [Taken<First>, ...Parameters<Others>]
    : [Taken<S>];
type FunctionOf<S> = S extends `${infer Result} (${infer Given})`
  ? (...given: Parameters<Given>) => Value<Result>
  : never;
type Rows<L extends keyof typeof FUNCTIONS> = {
  readonly [K in keyof (typeof FUNCTIONS)[L]]: FunctionOf<(typeof FUNCTIONS)[L][K]>;
};

export type Batch = Fields<(typeof STRUCTURES)['llama_batch']>;
export type Functions = Rows<'llama'> & Rows<'ggml'> & Rows<'base'>;

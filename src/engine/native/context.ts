import koffi from 'koffi';
import { type Attention, isQuantized } from '../../contract/attention.ts';
import { SvcError } from '../../errors.ts';
import type { Batch, Functions, Pointer } from './abi.ts';
import { type Llama, POOL_POLL, threadPoolParams } from './library.ts';
import type { Model } from './model.ts';
import type { StopAt, StopFlags } from './stop-flags.ts';

export interface ContextOptions {
  /** Tokens of each sequence. */
  contextSize: number;
  sequences: number;
  /** Tokens in one batch. */
  batch: number;
  /** The most threads that compute. */
  threads: number;
  attention?: Attention;
  /** Vectors of texts, or scores of texts. Absent: answers. */
  vectors?: 'embeddings' | 'scores';
  /** What ends a batch early. Absent: nothing does. */
  stops?: StopFlags;
}

/** Numbers of `ggml_type`. */
const CACHE_TYPES: Readonly<Record<Attention['cache_keys'], number>> = {
  f32: 0,
  f16: 1,
  q4_0: 2,
  q4_1: 3,
  q5_0: 6,
  q5_1: 7,
  q8_0: 8,
  bf16: 30,
};
const FLASH = { auto: -1, off: 0, on: 1 };
const SCORES = 4;
/** `LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY`: without the keys and values of attention. */
const PARTIAL = 1;
const WHOLE = 0;
const TO_THE_END = -1;
const NO_ROOM = 'There is too little memory for a longer context of the model.';
/** `llama_decode` was ended by a flag. */
const STOPPED = 2;

/** A batch was ended before its end, because a run was cancelled. */
export class BatchStopped extends Error {}

/** Of a sequence, at first. */
const ROOM_FIRST = 1024;
/** Weights whose model computes otherwise in a context above a size. */
const BY_SIZE = /rope_factors_long/;

/**
 * A context of llama.cpp. Its sequences have the numbers from 0. All calls block this thread.
 *
 * Its memory grows with its longest sequence: llama.cpp writes zeros into all of it at first, which
 * for eight sequences of 4096 tokens takes as long as the rest of a load.
 */
export class Context {
  readonly model: Model;
  /** The most tokens of each sequence. */
  readonly contextSize: number;
  readonly sequences: number;
  /** Another one after the context has grown. */
  pointer: Pointer = null;
  private memory: Pointer = null;
  /** Tokens that each sequence has memory for. */
  room: number;
  private readonly options: ContextOptions;
  private readonly c: Functions;
  private readonly llama: Llama;
  private readonly batch: Batch;
  private readonly arrays: ReturnType<typeof arraysOf>;
  private readonly stops: StopFlags | null;
  private readonly pool: Pointer;
  private threads = 0;
  private stopAt: StopAt | null = null;
  private isDisposed = false;

  /** Throws Error if llama.cpp makes none, usually for too little memory. */
  constructor(model: Model, options: ContextOptions) {
    const { contextSize, sequences, batch, threads, stops } = options;
    [this.model, this.llama, this.c] = [model, model.llama, model.llama.c];
    [this.contextSize, this.sequences, this.options] = [contextSize, sequences, options];
    this.stops = stops ?? null;
    this.pool = this.makePool(threads);
    this.room = growsLater(model, options) ? Math.min(contextSize, ROOM_FIRST) : contextSize;
    this.open();
    this.batch = this.c.llama_batch_init(batch, 0, 1);
    this.arrays = arraysOf(this.batch, batch);
  }

  private open(): void {
    const { c, pool } = this;
    const pointer: Pointer = c.llama_init_from_model(this.model.pointer, this.params());
    if (pointer === null) throw new Error('llama.cpp made no context');
    [this.threads, this.stopAt] = [0, null];
    [this.pointer, this.memory] = [pointer, c.llama_get_memory(pointer)];
    this.setAdapters();
    if (pool !== null) c.llama_attach_threadpool(pointer, pool, pool);
  }

  /**
   * Makes room for so many tokens of each sequence. Their computed tokens stay, also when this
   * throws engine_failed for too little memory.
   */
  private makeRoom(tokens: number): void {
    if (tokens <= this.room) return;
    const { pointer, memory, room, threads, stopAt } = this;
    const used = Array.from({ length: this.sequences }, (_, sequence) => sequence).filter(
      (sequence) => this.firstPositionOf(sequence) >= 0,
    );
    const states = used.map((sequence) => this.stateBytes(sequence, WHOLE));
    try {
      this.room = Math.min(this.contextSize, Math.max(tokens, 2 * room));
      this.open();
      for (const [at, sequence] of used.entries()) this.takeState(sequence, states[at] ?? null);
    } catch (cause) {
      if (this.pointer !== pointer) this.c.llama_free(this.pointer);
      [this.pointer, this.memory, this.room] = [pointer, memory, room];
      [this.threads, this.stopAt] = [threads, stopAt];
      throw new SvcError('engine_failed', NO_ROOM, { cause });
    }
    this.c.llama_free(pointer);
    if (threads > 0) this.setThreads(threads);
    this.setStop(stopAt);
  }

  private takeState(sequence: number, bytes: Uint8Array | null): void {
    if (bytes === null || !this.setState(sequence, bytes, WHOLE))
      throw new Error(`llama.cpp did not take the state of sequence ${sequence}`);
  }

  /** All sequences have the same ones: other ones are another load. */
  private setAdapters(): void {
    const { pointers, scales } = this.model.adapters;
    if (pointers.length === 0) return;
    const addresses = BigUint64Array.from(pointers, (pointer) => pointer ?? 0n);
    const values = Float32Array.from(scales);
    const { length } = pointers;
    if (this.c.llama_set_adapters_lora(this.pointer, addresses, length, values) !== 0)
      throw new Error('llama.cpp did not take the adapters');
  }

  private params() {
    const { gpuLayers } = this.model;
    const { sequences, batch, threads, attention, vectors } = this.options;
    return {
      ...this.c.llama_context_default_params(),
      // Texts share the context, and runs have parts of it.
      n_ctx: vectors === undefined ? this.room * sequences : this.room,
      n_batch: batch,
      n_ubatch: batch,
      n_seq_max: sequences,
      n_threads: threads,
      n_threads_batch: threads,
      // A model with a window keeps all tokens too, so that a sequence can go back.
      swa_full: true,
      offload_kqv: gpuLayers > 0,
      op_offload: gpuLayers > 0,
      ...(vectors === undefined ? {} : { embeddings: true, kv_unified: true }),
      ...(vectors === 'scores' ? { pooling_type: SCORES } : {}),
      ...(attention === undefined
        ? {}
        : {
            type_k: CACHE_TYPES[attention.cache_keys],
            type_v: CACHE_TYPES[attention.cache_values],
            flash_attn_type: flashOf(attention),
          }),
    };
  }

  /**
   * Threads that live as long as the context. Without them llama.cpp starts some for each batch,
   * which takes ten times as long as the batch beside other busy processes.
   */
  private makePool(threads: number): Pointer {
    const make = this.llama.processorFunction('ggml_threadpool_new');
    if (make === null || threads < 2) return null;
    const params = threadPoolParams(this.c, threads);
    params.setUint32(POOL_POLL, 0, true);
    return koffi.call(make, POOL_NEW, new Uint8Array(params.buffer));
  }

  setThreads(threads: number): void {
    if (threads === this.threads) return;
    this.c.llama_set_n_threads(this.pointer, threads, threads);
    this.threads = threads;
  }

  /** The next batch can be ended by this flag. */
  initBatch(stopAt: StopAt | null = null): void {
    this.batch.n_tokens = 0;
    const { stops } = this;
    if (stopAt === 'any' && stops !== null && !stops.areAllRaised) stops.lower('any');
    this.setStop(stopAt);
  }

  private setStop(stopAt: StopAt | null): void {
    const { stops, c, pointer, llama } = this;
    if (stops === null || stopAt === this.stopAt) return;
    this.stopAt = stopAt;
    if (stopAt === null) c.llama_set_abort_callback(pointer, null, null);
    else {
      const flag = koffi.address(stops.words) + BigInt(stops.placeOf(stopAt));
      c.llama_set_abort_callback(pointer, llama.isEmpty, flag);
    }
  }

  /**
   * Adds tokens of a sequence from its position `at`. Returns the indexes in the batch of the
   * tokens that `wanted` names, each by its index in `tokens`.
   */
  addToBatch(
    sequence: number,
    at: number,
    tokens: ArrayLike<number>,
    wanted: ArrayLike<number>,
  ): number[] {
    this.makeRoom(at + tokens.length);
    const { arrays, batch } = this;
    const begin = batch.n_tokens;
    for (let index = 0; index < tokens.length; index += 1) {
      const place = begin + index;
      arrays.tokens[place] = tokens[index] as number;
      arrays.positions[place] = at + index;
      arrays.counts[place] = 1;
      (arrays.sequences[place] as Int32Array)[0] = sequence;
      arrays.outputs[place] = 0;
    }
    batch.n_tokens = begin + tokens.length;
    const indexes = Array.from(wanted, (index) => begin + index);
    for (const index of indexes) arrays.outputs[index] = 1;
    return indexes;
  }

  /**
   * Computes the batch. Throws BatchStopped, or Error. Then the state of its sequences is unknown.
   */
  decodeBatch(): void {
    const code = this.c.llama_decode(this.pointer, this.batch);
    if (code === 0) return;
    if (code === STOPPED && this.isStopped()) throw new BatchStopped();
    throw new Error(`llama.cpp cannot compute the batch: ${code}`);
  }

  private isStopped(): boolean {
    const { stops, stopAt } = this;
    if (stops === null || stopAt === null || !stops.isRaised(stopAt)) return false;
    return stopAt !== 'any' || !stops.areAllRaised;
  }

  /** The odds of all tokens after the one with this index. Valid until the next batch. */
  logits(index: number): Float32Array {
    return this.floats(this.c.llama_get_logits_ith(this.pointer, index), this.model.vocabulary);
  }

  /** The vector of the only text in a sequence, or of its last token. */
  vector(sequence: number, index: number, length: number): Float32Array {
    const { c, pointer } = this;
    const isPooled = c.llama_pooling_type(pointer) !== 0;
    const found = isPooled ? c.llama_get_embeddings_seq(pointer, sequence) : null;
    return this.floats(found ?? c.llama_get_embeddings_ith(pointer, index), length).slice();
  }

  private floats(address: Pointer, count: number): Float32Array {
    if (address === null) throw new Error('llama.cpp computed nothing');
    return new Float32Array(koffi.view(address, count * 4));
  }

  /** Forgets the tokens from there. False: the memory of this model cannot forget only a part. */
  forget(sequence: number, from = 0): boolean {
    return this.c.llama_memory_seq_rm(this.memory, sequence, from, TO_THE_END);
  }

  /** The first position that is still in memory. -1: none is. */
  firstPositionOf(sequence: number): number {
    return this.c.llama_memory_seq_pos_min(this.memory, sequence);
  }

  clear(): void {
    if (this.memory !== null) this.c.llama_memory_clear(this.memory, false);
  }

  /** Bytes of the state of a sequence. */
  sizeOf(sequence: number, part = WHOLE): number {
    return this.c.llama_state_seq_get_size_ext(this.pointer, sequence, part);
  }

  /**
   * The part of the state of a sequence that cannot go back to an earlier token. Null: it has more
   * bytes.
   */
  stateOf(sequence: number, bytesMax: number): Uint8Array | null {
    return this.stateBytes(sequence, PARTIAL, bytesMax);
  }

  /** Goes back to such a part. False: the state of the sequence is unknown. */
  restoreState(sequence: number, bytes: Uint8Array): boolean {
    return this.setState(sequence, bytes, PARTIAL);
  }

  /** Null: it has more bytes. */
  private stateBytes(sequence: number, part: number, bytesMax = Infinity): Uint8Array | null {
    const { c, pointer } = this;
    const size = this.sizeOf(sequence, part);
    if (size === 0 || size > bytesMax) return null;
    const bytes = new Uint8Array(size);
    const written = c.llama_state_seq_get_data_ext(pointer, bytes, size, sequence, part);
    return written === size ? bytes : null;
  }

  private setState(sequence: number, bytes: Uint8Array, part: number): boolean {
    const { c, pointer } = this;
    const { length } = bytes;
    return c.llama_state_seq_set_data_ext(pointer, bytes, length, sequence, part) === length;
  }

  /** Writes the state of a sequence. Throws Error if that fails. */
  saveState(path: string, sequence: number, tokens: readonly number[]): void {
    const ids = Int32Array.from(tokens);
    const { c, pointer } = this;
    if (c.llama_state_seq_save_file(pointer, path, sequence, ids, ids.length) === 0)
      throw new Error(`the state was not written to ${path}`);
  }

  /** Returns the tokens of the file. Bytes of another context can end the process. */
  loadState(path: string, sequence: number, most: number): number[] {
    this.makeRoom(most);
    const [ids, count] = [new Int32Array(most), new BigUint64Array(1)];
    const { c, pointer } = this;
    if (c.llama_state_seq_load_file(pointer, path, sequence, ids, most, count) === 0)
      throw new Error('the state cannot be read');
    return [...ids.subarray(0, Number(count[0]))];
  }

  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
    this.c.llama_batch_free(this.batch);
    this.c.llama_free(this.pointer);
    const free = this.llama.processorFunction('ggml_threadpool_free');
    if (this.pool !== null && free !== null) koffi.call(free, POOL_FREE, this.pool);
  }
}

/**
 * Whether the context may begin small. A graphics card makes its memory at once, and has no room
 * for two. A state, unlike keys and values, does not grow.
 */
function growsLater({ gpuLayers, kind, weights }: Model, { vectors }: ContextOptions): boolean {
  if (gpuLayers > 0 || vectors !== undefined || kind.isRecurrent || kind.isHybrid) return false;
  return !weights.some((name) => BY_SIZE.test(name));
}

function flashOf({ cache_values, flash }: Attention): number {
  if (isQuantized(cache_values) || flash === true) return FLASH.on;
  return flash === 'auto' ? FLASH.auto : FLASH.off;
}

const POOL_NEW = koffi.proto('void* ggml_threadpool_new(void*)');
const POOL_FREE = koffi.proto('void ggml_threadpool_free(void*)');

/** The arrays of a batch, which are written in place. */
function arraysOf({ token, pos, n_seq_id, seq_id, logits }: Batch, size: number) {
  const whole = (address: Pointer) => new Int32Array(koffi.view(address, size * 4));
  const lists: Pointer[] = koffi.decode(seq_id, koffi.array('void*', size));
  return {
    tokens: whole(token),
    positions: whole(pos),
    counts: whole(n_seq_id),
    sequences: lists.map((address) => new Int32Array(koffi.view(address, 4))),
    outputs: new Int8Array(koffi.view(logits, size)),
  };
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type OutputPart as AnswerPart,
  partsAfter,
  type RunRequest,
} from '../../src/contract/messages/parts.ts';
import { defaultLimits, type Limits } from '../../src/limits.ts';
import type { Log } from '../../src/ports/log.ts';
import type { OutputPart } from '../../src/ports/providers.ts';
import {
  createLocalProvider,
  type LocalProvider,
  type LocalProviderOptions,
} from '../../src/providers/local/provider.ts';
import { type Asking, asking } from './asking.ts';
import { driveEngines, type EngineDrivers } from './engine-drivers.ts';

export interface LocalHarness extends LocalProvider {
  folder: string;
  models_folder: string;
  /** The machines of the engines. As one machine, they are the one whose event came last. */
  engine: EngineDrivers;
  /** The output of the engine processes. */
  printed: string[];
  state(): string;
  /** Pid of the engine process; throws when no process runs. */
  pid(): number;
  close(): Promise<void>;
}

/** The local provider with the real engine process and the real machine, in a separate folder. */
export function makeLocalProvider(
  options: Partial<Omit<LocalProviderOptions, 'limits'>> & { limits?: Partial<Limits> } = {},
): LocalHarness {
  const folder = mkdtempSync(join(tmpdir(), 'svc-local-'));
  const printed: string[] = [];
  const log: Log = {
    debug: (_, message) => void printed.push(message),
    info() {},
    warn() {},
    error() {},
  };
  const engine = driveEngines(({ type, params }) => {
    if (type === 'startEngine') local.handlers.startEngine(params, '');
    if (type === 'stopEngine') local.handlers.stopEngine(params, '');
    if (type === 'killEngine') local.handlers.killEngine(params, '');
  });
  const local = createLocalProvider({
    engines: engine.ports,
    models: folder,
    cache: folder,
    model: 'svc-mini',
    threads: 1,
    log,
    ...options,
    limits: { ...defaultLimits, ...options.limits },
  });
  return {
    ...local,
    folder,
    models_folder: options.models ?? folder,
    engine,
    printed,
    state: () => engine.state(),
    pid: () => {
      const pid = engine.snapshot().context.info?.pid;
      if (pid === undefined) throw new Error('no engine is loaded');
      return pid;
    },
    close: async () => {
      await local.provider.close();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

export function runRequest(changes: Asking = {}): RunRequest {
  return asking({
    provider: 'local',
    model: 'svc-mini',
    cloud: false,
    prompt: 'How do I start it?',
    max_tokens: 40,
    temperature: 0,
    seed: 7,
    seed_asked: true,
    ...changes,
  });
}

export interface WholeAnswer {
  text: string;
  token_ids: number[];
  parts: OutputPart[];
  finish: Extract<OutputPart, { type: 'finish' }> | null;
}

let asked = 0;

/** Reads a whole answer; `heard` holds the part so far. */
export async function readAnswer(
  local: LocalProvider,
  changes: Asking = {},
  signal: AbortSignal = new AbortController().signal,
  heard: WholeAnswer = { text: '', token_ids: [], parts: [], finish: null },
): Promise<WholeAnswer> {
  asked += 1;
  for await (const part of local.provider.stream(
    { run_id: `run_${asked}`, attempt: 1, request: runRequest(changes), resume: null },
    signal,
  )) {
    heard.parts.push(part);
    if (part.type === 'finish') heard.finish = part;
    else {
      heard.text += part.text;
      heard.token_ids.push(...part.token_ids);
    }
  }
  return heard;
}

export function partsOf(answer: WholeAnswer): readonly AnswerPart[] {
  let [text, parts]: [string, readonly AnswerPart[]] = ['', []];
  for (const output of answer.parts) {
    if (output.type !== 'output') continue;
    parts = partsAfter(parts, text, output);
    if (output.kind === undefined) text += output.text;
  }
  return parts;
}

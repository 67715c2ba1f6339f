import { statSync } from 'node:fs';
import type { EngineInfo, Failure } from '../../../machines/events.ts';
import { isIn } from '../../../machines/step.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../kernel/port.ts';
import type { EngineKey } from '../../kernel/stream.ts';
import { count, mebibytes, seconds } from './words.ts';

const REASONS: Readonly<Record<string, string>> = {
  idle: 'it had no work',
  room: 'another model needs its memory',
  model_changed: 'it starts again with other threads',
  requested: 'this was asked for',
};

/**
 * Logs what models are in memory: loaded, left, died. It owns the model of each engine that lives,
 * and why it was asked to stop: the machine forgets both.
 */
export function logEngines(kernel: Kernel, log: Log): void {
  const live = new Map<EngineKey, { model: string; reason: string | null }>();
  kernel.subscribe({ machine: 'engine' }, ({ type, stream, data }, snapshot) => {
    const { info, error } = snapshot.context;
    const known = live.get(stream);
    switch (type) {
      case 'engine.load_requested':
        return void live.set(stream, { model: String(data.model), reason: null });
      case 'engine.model_loaded':
        return info === null ? undefined : log.info({}, loaded(info));
      case 'engine.load_failed': {
        const { code, message } = data.error as Failure;
        return log.warn({ code }, `model ${known?.model} could not be loaded: ${message}`);
      }
      case 'engine.stop_requested':
        if (known !== undefined) known.reason = REASONS[String(data.reason)] ?? null;
        return;
      case 'engine.exited': {
        live.delete(stream);
        const model = known?.model ?? 'no model';
        if (isIn(snapshot, 'crashed'))
          log.warn({ code: error?.code }, `the engine of ${model} died: ${ending(data)}`);
        else if (known?.reason != null) log.info({}, `model ${model} left memory: ${known.reason}`);
      }
    }
  });
}

function loaded({
  model,
  path,
  load_ms,
  threads,
  context_length,
  gpu_layers = 0,
}: EngineInfo): string {
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  const parts = [
    ...(size === undefined ? [] : [mebibytes(size)]),
    count(threads, 'thread'),
    `${context_length} tokens of context`,
    ...(gpu_layers > 0 ? [`${count(gpu_layers, 'layer')} on the GPU`] : []),
  ];
  return `model ${model} loaded in ${seconds(load_ms)}: ${parts.join(', ')}`;
}

function ending({ signal, exit_code, reason }: Record<string, unknown>): string {
  if (reason === 'memory') return 'it took more memory than it may';
  if (reason === 'outside') return `something else killed it, ${signal}`;
  return signal === null ? `exit code ${exit_code}` : String(signal);
}

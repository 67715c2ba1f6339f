import { isIn } from '../../../machines/step.ts';
import { SvcError } from '../../errors.ts';
import { stateOf } from './model-record.ts';
import { type EnginePort, waitForEngine } from './wait-for-engine.ts';

/**
 * Unloads the model if the engine is idle. Resolves once the engine does not use the file. Throws
 * model_in_use.
 */
export async function unloadModel(
  engine: EnginePort,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const inUse = (cause?: unknown) =>
    new SvcError('model_in_use', 'Runs are using the model, or it is being loaded.', {
      param: 'model',
      cause,
    });
  const look = async () => {
    const snapshot = engine.snapshot();
    const state = stateOf(path, snapshot);
    if (state === 'loading' || (state === 'loaded' && isIn(snapshot, 'busy'))) throw inUse();
    if (state === 'loaded')
      await engine.tryAppend({ type: 'engine.stop_requested', reason: 'requested' });
    else if (
      snapshot === undefined ||
      !isIn(snapshot, 'stopping') ||
      snapshot.context.path !== path
    )
      return true;
    return null;
  };
  await waitForEngine(engine, signal, look).catch((error: unknown) => {
    throw error instanceof SvcError ? error : inUse(error);
  });
}

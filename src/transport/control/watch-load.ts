import { LOAD_LOOK_MS } from '../../limits.ts';
import type { ModelLoad } from '../../runtime/contract.ts';
import type { Runtime } from '../../runtime/port.ts';

/**
 * Reports how far the model of a run is loaded, at each change, until it is ended. The log has no
 * events of it, so it is looked at.
 */
export function watchLoad(
  runtime: Pick<Runtime, 'loads'>,
  id: string,
  report: (load: ModelLoad) => unknown,
): () => void {
  let reported: ModelLoad | null = null;
  const look = () => {
    const load = runtime.loads.ofRun(id);
    const isNew = load?.model !== reported?.model || load?.progress !== reported?.progress;
    if (load !== null && isNew) void report(load);
    reported = load;
  };
  const timer = setInterval(look, LOAD_LOOK_MS).unref();
  return () => clearInterval(timer);
}

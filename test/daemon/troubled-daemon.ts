import { Worker } from 'node:worker_threads';
import { serveDaemon } from '../../src/daemon/index.ts';
import { asSvcError, SvcError } from '../../src/errors.ts';
import { findPaths } from '../../src/home/paths.ts';
import { packError } from '../../src/kernel/store/sqlite/thrown-error.ts';

/**
 * The real daemon over a real store with a failing disk. The disk fails from the start or from
 * SIGUSR2 on. The first argument names the trouble.
 */
const trouble = process.argv[2] ?? '';
let begun = !['none', 'held'].includes(trouble) && !trouble.endsWith('when ready');

process.on('SIGUSR2', () => {
  begun = true;
  console.log('in trouble');
});

/** A call that does not reach the store thread has no answer, or the answer of a full disk. */
const { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (this: Worker, ...args: Parameters<typeof postMessage>) {
  const { id, method } = args[0] as { id?: number; method?: string };
  if (trouble === 'opens never' && method === 'open') return;
  if (!begun || method !== 'append') return postMessage.apply(this, args);
  if (trouble.startsWith('full'))
    queueMicrotask(() =>
      this.emit('message', { id, error: packError(new SvcError('store_full')) }),
    );
};

process.exitCode = await serveDaemon({ paths: findPaths(), background: false }).catch(
  (error: unknown) => {
    console.error(asSvcError(error).code);
    return asSvcError(error).spec.exit;
  },
);

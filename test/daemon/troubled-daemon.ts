import { serveDaemon } from '../../src/daemon.ts';
import { asSvcError, SvcError } from '../../src/errors.ts';
import { findPaths } from '../../src/home/paths.ts';
import { StoreThread } from '../../src/store/sqlite/thread.ts';

/** The real daemon over a store that is real until its disk is in trouble: from the start, or from SIGUSR2 on. The first argument says how. */
const trouble = process.argv[2] ?? '';
const never = () => new Promise<never>(() => {});
const call = StoreThread.prototype.call;
let begun = !['none', 'held'].includes(trouble) && !trouble.endsWith('when ready');

process.on('SIGUSR2', () => {
  begun = true;
  console.log('in trouble');
});

StoreThread.prototype.call = function (
  this: StoreThread,
  ...args: Parameters<typeof call>
): ReturnType<typeof call> {
  const [method] = args;
  if (trouble === 'opens never' && method === 'open') return never();
  if (!begun || method !== 'append') return call.apply(this, args);
  return trouble.startsWith('full') ? Promise.reject(new SvcError('store_full')) : never();
} as typeof call;

process.exitCode = await serveDaemon({ paths: findPaths(), background: false }).catch(
  (error: unknown) => {
    console.error(asSvcError(error).code);
    return asSvcError(error).spec.exit;
  },
);

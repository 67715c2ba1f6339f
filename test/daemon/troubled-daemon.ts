import { serveDaemon } from '../../src/daemon.ts';
import { asSvcError, SvcError } from '../../src/errors.ts';
import { findPaths } from '../../src/paths.ts';
import { StoreThread } from '../../src/store/thread.ts';

/** The real daemon over a store that is real until its disk is in trouble, as the first argument says. */
const trouble = process.argv[2] ?? '';
const never = () => new Promise<never>(() => {});
const call = StoreThread.prototype.call;
let appends = 0;

StoreThread.prototype.call = function (this: StoreThread, ...args: Parameters<typeof call>): ReturnType<typeof call> {
  const [method] = args;
  if (trouble === 'opens never' && method === 'open') return never();
  if (method === 'append') {
    appends += 1;
    if (trouble === 'full when opened' || (trouble === 'full when ready' && ready())) return Promise.reject(new SvcError('store_full'));
    if (trouble === 'silent when ready' && ready()) return never();
  }
  return call.apply(this, args);
} as typeof call;

let said = false;
/** The commits of a start are few and are over when nothing is committed for a while. */
function ready(): boolean {
  return said;
}
const watch = setInterval(() => {
  if (appends === 0 || trouble === 'opens never') return;
  const before = appends;
  setTimeout(() => {
    if (appends !== before || said) return;
    said = true;
    clearInterval(watch);
    console.log('in trouble');
  }, 300).unref();
}, 100).unref();

const paths = findPaths();
process.exitCode = await serveDaemon({ paths, background: false }).catch((error: unknown) => {
  console.error(asSvcError(error).code);
  return asSvcError(error).spec.exit;
});

import { registerHooks } from 'node:module';
import vm from 'node:vm';

/**
 * A preload for a process of the built program: bounds that are no settings have the values of
 * `FIXED_LIMITS` there, which is an object as JSON.
 */
const values = Object.entries(JSON.parse(process.env.FIXED_LIMITS ?? '{}') as object);

function withValues(source: string): string {
  return values.reduce(
    (text, [name, value]) =>
      text.replace(new RegExp(`\\b${name}: ?[\\d.e]+(?: ?\\* ?\\w+)*`, 'g'), `${name}: ${value}`),
    source,
  );
}

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.includes('/dist/') || loaded.source === undefined) return loaded;
    return { ...loaded, source: withValues(String(loaded.source)) };
  },
});

/**
 * The daemon and the quick commands are scripts. Their compiled code is neither read nor kept. Each
 * value must be in the daemon, else a test of it would have the bound of users.
 */
vm.Script = class extends vm.Script {
  override cachedDataRejected = false;
  constructor(source: string, options: vm.ScriptOptions) {
    const changed = withValues(source);
    for (const [name, value] of values)
      if (options.filename?.endsWith('serve.js') && !changed.includes(`${name}: ${value}`))
        throw new Error(`The daemon has no bound ${name}.`);
    super(changed, { ...options, cachedData: undefined });
  }
};

import { registerHooks } from 'node:module';

/**
 * A preload for a daemon of the built program: bounds that are no settings have the values of
 * `FIXED_LIMITS` there, which is an object as JSON.
 */
const values = Object.entries(JSON.parse(process.env.FIXED_LIMITS ?? '{}') as object);

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.includes('/dist/') || loaded.source === undefined) return loaded;
    const source = values.reduce(
      (text, [name, value]) =>
        text.replace(new RegExp(`\\b${name}: [\\d.e]+(?: \\* \\w+)*`, 'g'), `${name}: ${value}`),
      String(loaded.source),
    );
    return { ...loaded, source };
  },
});

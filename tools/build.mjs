// Builds the program into dist/: bundles the sources, and copies what is not TypeScript.
// `npm run build` runs it, with the Node that `npm install` puts into node_modules.
// See docs/decisions/0014-the-program-is-bundled.md.

import { createHash } from 'node:crypto';
import fs, {
  chmodSync,
  cpSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';

// Without the packages there is also no Node of this project. An older one has no globSync, so an
// import of it by name would fail before this sentence.
const { build } = await import('esbuild').catch((error) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  console.error('The packages of this checkout are missing. Run first: npm install');
  process.exit(1);
});

const MAIN = 'src/main.ts';
/** The first file of every other process and thread, which share nothing: found by their place. */
const WORKERS = [
  'src/engine/probe.ts',
  'src/engine/main.ts',
  'src/engine/worker.ts',
  'src/providers/local/gguf-worker.ts',
  'src/engine/inspect/worker.ts',
  'src/runtime/judge/worker.ts',
  'src/kernel/store/sqlite/worker.ts',
  'src/dialects/documents/pdf-worker.ts',
];
/** Packages that are in the bundles. The others are loaded from node_modules. */
const POLKA = ['polka', '@polka', 'regexparam', 'trouter'];
const BUNDLED = [...POLKA, 'mri', 'sade', 'ulid', 'valibot', 'xstate'];

/**
 * Importing a module of Node reads all its exports, which is slow. So only the named ones are read.
 * Those of `node:http` also load a client for HTTP and WebSocket, of 5 MiB in the daemon.
 */
function withBuiltins(text) {
  return text.replace(
    /^import (?:(\w+)|\{([^}]*)\}) from '(node:[^']+)';$/gm,
    (_, whole, names = '', module) => {
      const values = names.split(',').filter((name) => !/^\s*(type\s|$)/.test(name));
      const taken = whole ?? `{${values.join(',').replace(/ as /g, ': ')}}`;
      return `const ${taken} = process.getBuiltinModule('${module}');`;
    },
  );
}

/** Packages stay outside, except the small ones. */
const outside = {
  name: 'outside',
  setup({ onResolve }) {
    onResolve({ filter: /^[^./]/ }, ({ path, kind }) => {
      const isOurs = kind === 'entry-point' || BUNDLED.includes(path.split('/')[0]);
      return isOurs ? undefined : { path, external: true };
    });
  },
};

/**
 * A file that looks for others beside itself finds them, wherever the bundle with its code is. Each
 * bundle has another way to that place, so the bundles get it last.
 */
function withPlaces(text, path) {
  const place = relative('.', path).replaceAll(sep, '/').replace(/\.ts$/, '.js');
  return text.replaceAll('import.meta.url', `PLACE("${place}")`);
}

/** The whole program imports each file that the table of commands names. */
function withCommands(text, path) {
  if (!path.endsWith(join('cli', 'program.ts'))) return text;
  const files = [...new Set(commands.map(({ file }) => file))].map(
    (file) => `'${file}': () => import('./${file}.ts'),`,
  );
  const call = /import\(`[^`]*`\)/;
  if (!call.test(text)) throw new Error('program.ts imports no command.');
  return text.replace(call, `({${files.join('\n')}})[file]()`);
}

/** The first file of a script: its text comes from the table of commands. */
const scripts = {
  name: 'scripts',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^script:/ }, ({ path }) => ({ path, namespace: 'script' }));
    onLoad({ filter: /./, namespace: 'script' }, ({ path }) => ({
      contents: textOfScript(path.slice('script:'.length)),
      resolveDir: resolve('src/cli'),
    }));
  },
};

/** What a quick command needs without a daemon is not in it: the whole program does that. */
const leftOut = {
  name: 'left out',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\/(whole-id|offline|chat)\.ts$/ }, ({ path, kind }) =>
      kind === 'dynamic-import' ? { path, namespace: 'not-quick' } : undefined,
    );
    onLoad({ filter: /./, namespace: 'not-quick' }, () => ({
      contents: `import { NOT_QUICK } from './quick-command.ts'; throw NOT_QUICK;`,
      resolveDir: resolve('src/cli'),
    }));
  },
};

function textOfScript(name) {
  if (name === 'help') return `export { main } from './quick-help.ts';`;
  const spec = commands.find((each) => each.name === name);
  const make = name === DAEMON ? 'serveCommand' : 'quickCommand';
  return `import { run } from './${spec.file}.ts';
    import { ${make} } from './${name === DAEMON ? 'quick-serve' : 'quick-command'}.ts';
    export const main = ${make}(${JSON.stringify(formOf(spec), FORM)}, run);`;
}

/** A package that a user installed is imported by its path, which `require` does not do. */
function withImports(text) {
  return text.replaceAll('await import(specifier)', 'await IMPORT(specifier)');
}

/** Files of node-llama-cpp that are read while the program runs. The package is not in it. */
const LIBRARY = 'node_modules/node-llama-cpp';
const LIBRARY_FILES = ['package.json', 'LICENSE', 'dist/gguf/types/GgufMetadataTypes.js'];
const LIBRARY_PLACE = 'dist/src/engine/node-llama-cpp';

/** The sources and polka, changed by each of these functions. */
const changed = (...changes) => ({
  name: 'changed',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$|\bpolka\b/ }, ({ path }) => {
      const contents = changes.reduce(
        (text, change) => change(text, path),
        readFileSync(path, 'utf8'),
      );
      return { contents, loader: 'ts' };
    });
  },
});

/** What the program reads besides, and what builds it. */
const OTHERS = ['docs/runtime.proto', 'package.json', 'tools/build.mjs'];

/** The same sources and packages make the same build. */
function identity() {
  const hash = createHash('sha256');
  const files = [...fs.globSync('{src,machines}/**/*.*'), ...OTHERS];
  for (const file of files.map((name) => name.replaceAll(sep, '/')).sort())
    hash.update(`${file}\0`).update(readFileSync(file)).update('\0');
  return hash.digest('hex').slice(0, 12);
}
const BUILD = JSON.stringify(identity());
const VERSION = JSON.stringify(JSON.parse(readFileSync('package.json', 'utf8')).version);

rmSync('dist', { recursive: true, force: true });
for (const file of fs.globSync('src/**/*.{html,css,svg,png,webmanifest,js}'))
  cpSync(file, join('dist', file));
const { commands } = await import('../src/cli/terminal/commands.ts');
const { formOf } = await import('../src/cli/terminal/parse/command-line.ts');
const { partOf } = await import('./package/part.ts');
/** What `CommandForm` in src/cli/terminal/parse/line.ts has. */
const FORM = ['name', 'args', 'flags', 'short', 'value', 'many'];
const QUICK = commands.filter(({ isQuick }) => isQuick);
const DAEMON = 'serve';
const QUICK_NAMES = [...QUICK.map(({ name }) => name), 'help'];
await bundle([MAIN], {
  bundle: false,
  define: { BUILD, QUICK: JSON.stringify([...QUICK_NAMES, DAEMON]) },
});
const OURS = [outside, changed(withPlaces, withBuiltins, withImports)];
const SHORT = { minifyWhitespace: true, minifySyntax: true, minifyIdentifiers: true };
await bundleScripts(QUICK_NAMES, { ...SHORT, plugins: [scripts, leftOut, ...OURS] });
// What a daemon logs of an error names its functions. It has all that it may ever load.
await bundleScripts([DAEMON], { ...SHORT, minifyIdentifiers: false, plugins: [scripts, ...OURS] });
await bundle(['src/cli/program.ts'], { splitting: true, chunkNames: 'src/chunks/[name]-[hash]' });
await bundle(WORKERS);
addLibraryFiles();
chmodSync('dist/src/main.js', 0o755);
link('node_modules/.bin/svc');

/**
 * Files that the bin runs with `vm.Script`: functions of the place of the bin, and of what only the
 * bin can do. They return the command.
 */
function bundleScripts(names, options) {
  const entries = names.map((name) => ({
    in: `script:${name}`,
    out: `src/cli/quick/${name.replace(' ', '-')}`,
  }));
  return bundle(entries, {
    format: 'iife',
    globalName: 'QUICK',
    banner: { js: '(function(BIN,require,IMPORT,RESOLVE){' },
    footer: { js: 'return QUICK.main})' },
    define: { BUILD, VERSION, 'import.meta.resolve': 'RESOLVE' },
    // Node warns of an import() in such a script, so it becomes a call of `require`.
    supported: { 'dynamic-import': false },
    // Code that a bundle drops may have it. What stays is checked below.
    logOverride: { 'empty-import-meta': 'silent' },
    ...options,
  });
}

async function bundle(entryPoints, options = {}) {
  const { outputFiles } = await build({
    entryPoints,
    outbase: '.',
    outdir: 'dist',
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node22.14',
    sourcemap: options.bundle !== false,
    sourcesContent: false,
    legalComments: 'none',
    ...(options.bundle === false ? {} : { define: { BUILD, VERSION } }),
    plugins:
      options.bundle === false ? [] : [outside, changed(withCommands, withPlaces, withBuiltins)],
    write: false,
    logLevel: 'warning',
    ...options,
  });
  for (const { path, text } of outputFiles) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, textOf(text, path, options));
  }
}

/** Also the licence of the package, and its name. */
function addLibraryFiles() {
  for (const file of LIBRARY_FILES) cpSync(join(LIBRARY, file), join(LIBRARY_PLACE, file));
  const { section, name, version } = partOf(LIBRARY);
  writeFileSync(join(LIBRARY_PLACE, 'LICENSES.txt'), `${section}\n`);
  writeFileSync(join(LIBRARY_PLACE, 'packages.json'), `${JSON.stringify([{ name, version }])}\n`);
}

function textOf(text, path, { bundle, format }) {
  if (bundle === false) return asBuilt(text);
  if (text.includes('import_meta')) throw new Error(`${path} needs its own place.`);
  return format === 'iife'
    ? atPlaces(text, resolve('dist', MAIN), 'BIN')
    : atPlaces(text, path, 'import.meta.url');
}

/** The names of the files that it imports, as they are built. */
function asBuilt(text) {
  return text.replace(/(?<=import\(")([^"]+)\.ts(?="\))/g, '$1.js');
}

function atPlaces(text, path, own) {
  return text.replace(/\bPLACE\("([^"]+)"\)/g, (_, place) => {
    const way = relative(dirname(path), resolve('dist', place)).replaceAll(sep, '/');
    return `new URL("${way}", ${own}).href`;
  });
}

/** npm links the programs of dependencies only. `npx svc` in the checkout needs this link. */
function link(bin) {
  rmSync(bin, { force: true });
  if (process.platform !== 'win32') symlinkSync(join('../..', 'dist/src/main.js'), bin);
  else writeFileSync(`${bin}.cmd`, '@node "%~dp0..\\..\\dist\\src\\main.js" %*');
}

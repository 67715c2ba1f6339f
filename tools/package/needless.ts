import type { Platform } from './platforms.ts';

/** Packages that the engine's library and others name for their own development. */
const NEVER_LOADED = ['typescript', '@typescript', '@types', 'node-addon-api', 'node-api-headers'];

/** Folders at the top of a package. Some packages publish them. */
const FOLDERS =
  'test|tests|__tests__|spec|example|examples|benchmark|benchmarks|docs|man|\\.github';

/**
 * Whether a program that runs never reads this file. `file`: its path below `node_modules`, with
 * `/`. Licences stay: see licences.ts.
 */
export function isNeedless(file: string, { os, cpu }: Platform): boolean {
  const [first = ''] = file.split('/');
  return (
    /(^|\/)\./.test(file) ||
    NEVER_LOADED.includes(first) ||
    /\.(map|[cm]?ts|md|markdown|flow|tsbuildinfo|html|sh)$/i.test(withoutLicence(file)) ||
    new RegExp(`(^|/node_modules/)(@[^/]+/)?[^/]+/(${FOLDERS})/`).test(file) ||
    /^better-sqlite3\/(deps|src)\//.test(file) ||
    /^koffi\/((doc|lib|vendor)\/|.*\.(asm|cc|def|hh|inc|S|txt)$)/.test(withoutLicence(file)) ||
    (file.startsWith('better-sqlite3/prebuilds/') && !file.endsWith(`/${os}-${cpu}.node`)) ||
    (file.startsWith('@node-llama-cpp/') && !file.startsWith(`@node-llama-cpp/${os}-${cpu}/`))
  );
}

function withoutLicence(file: string): string {
  return /(licen[cs]e|copying|notice)[^/]*$/i.test(file) ? '' : file;
}

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { SvcError } from '../../errors.ts';
import { librariesFolder } from './folder.ts';

/** A template that llama.cpp has parsed. Both throw Error, and cannot be interrupted. */
export interface Renderer {
  render(values: object): string;
}

interface Addon {
  AddonJinjaRenderer: new (source: string) => Renderer;
}

/** In the package of the libraries, with functions that they do not export. */
export const ADDON = 'llama-addon.node';

let opened: Addon | null = null;

/**
 * Loads the addon once. Only processes that can be killed do so: it renders third-party templates.
 * Throws engine_missing, engine_unavailable.
 */
export function openAddon(folder = librariesFolder()): Addon {
  opened ??= checkAddon(load(join(folder, ADDON)));
  return opened;
}

function load(file: string): unknown {
  if (!existsSync(file))
    throw new SvcError('engine_missing', undefined, { cause: new Error(`no file ${file}`) });
  try {
    return createRequire(import.meta.url)(file);
  } catch (cause) {
    throw new SvcError('engine_missing', undefined, { cause });
  }
}

/** Throws engine_unavailable unless it renders as this version of svc expects. */
export function checkAddon(loaded: unknown): Addon {
  const addon = loaded as Addon;
  try {
    const { AddonJinjaRenderer: Renderer } = addon;
    const text = new Renderer('{{ a | tojson }}{{ b.c }}').render({ a: [1, 'é'] });
    if (text === '[1, "é"]') return addon;
    throw new Error(`it renders ${text}`);
  } catch (cause) {
    throw new SvcError(
      'engine_unavailable',
      `The file ${ADDON} of llama.cpp is not that of this version of svc: it renders no templates.`,
      { cause },
    );
  }
}

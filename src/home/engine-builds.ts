import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Paths } from './paths.ts';
import { SYSTEM } from './platform.ts';

/** The version of the library and of its builds. A test compares it with package.json. */
export const ENGINE_VERSION = '3.22.1';
const SCOPE = '@node-llama-cpp';

/** A build of llama.cpp for graphics cards. It is installed into the home. */
interface Build {
  /** Its packages without their scope, and their SHA-512. A test compares them with the lock. */
  packages: Readonly<Record<string, string>>;
  /** In bytes, installed. */
  size: number;
  cards: readonly Card[];
  /** The library that the machine must have, and its package. */
  library: string;
  needs: string;
}
export type Card = 'NVIDIA' | 'AMD';

const CUDA = {
  'linux-x64-cuda':
    '8rQCjyNNLZJUFit+YpjwlC4hwkKgOMIkB2wuycKBf8NU2O3ySKbiWZQ8aw9ku2nUTXjSnUIrE6KB88itduTBuA==',
};
const CUDA_12 = {
  ...CUDA,
  'linux-x64-cuda-ext':
    '4e5ajkiM2aR2WAdB/N/ACk4weEhHvOAIrzxZPsIX0xDFW5+6hhShuy1/vs88SK9NGdgAco9IyE28eYS0H1efpA==',
};
const VULKAN = {
  'linux-x64-vulkan':
    'bBxqU+JOcBu1nb5Qj2zcMci+JByT1E8EajHvYodyNfVIPkEhXh+/HMwR1/BT7xP08YK0hks+kM8fglER0P8JEg==',
};

/** By system and name, the best for a card first. A system without a row has no tested build. */
const BUILDS: Readonly<Record<string, Readonly<Record<string, Build>>>> = {
  'linux-x64': {
    cuda: {
      packages: CUDA,
      size: 189_361_000,
      cards: ['NVIDIA'],
      library: 'libcudart.so.13',
      needs: 'the runtime of CUDA 13',
    },
    'cuda-12': {
      packages: CUDA_12,
      size: 563_814_000,
      cards: ['NVIDIA'],
      library: 'libcudart.so.12',
      needs: 'the runtime of CUDA 12',
    },
    vulkan: {
      packages: VULKAN,
      size: 73_756_000,
      cards: ['NVIDIA', 'AMD'],
      library: 'libvulkan.so.1',
      needs: 'the loader of Vulkan, and the driver of the card',
    },
  },
};

/** A machine whose files are below `root`. */
export interface Machine {
  root: string;
  /** As in `process`: `linux-x64`. */
  system: string;
}
const THIS: Machine = { root: '/', system: SYSTEM };

/** The builds for a machine, by name. */
export function buildsFor({ system }: Machine = THIS): Readonly<Record<string, Build>> {
  return BUILDS[system] ?? {};
}

/** Where the packages of a version are: `<folder>/@node-llama-cpp/<package>`. */
export function buildsFolder({ data }: Pick<Paths, 'data'>, version = ENGINE_VERSION): string {
  return join(data, 'engine-builds', version);
}

export function packageFolder(builds: string, name: string): string {
  return join(builds, SCOPE, name);
}

/** The name of the package at npm. */
export function packageName(name: string): string {
  return `${SCOPE}/${name}@${ENGINE_VERSION}`;
}

/** Versions whose packages are in the home. Those of another version are never used. */
export function installedVersions({ data }: Pick<Paths, 'data'>): string[] {
  const folder = join(data, 'engine-builds');
  // The drafts of an installation begin with a dot.
  return existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith('.')) : [];
}

export function isInstalled(builds: string, { packages }: Pick<Build, 'packages'>): boolean {
  return Object.keys(packages).every((name) => existsSync(packageFolder(builds, name)));
}

/** Memory of a card. Graphics of a processor have less, and do not compute faster than it. */
const CARD_BYTES_MIN = 2 * 1024 ** 3;
const AMD_VENDOR = '0x1002';

/** The card of a machine that a build can use. Intel's number does not say whether it is a card. */
export function cardOf({ root }: Machine = THIS): Card | null {
  // The second one is Linux inside Windows.
  for (const file of ['proc/driver/nvidia/version', 'usr/lib/wsl/lib/libcuda.so.1'])
    if (existsSync(join(root, file))) return 'NVIDIA';
  const cards = join(root, 'sys/class/drm');
  const isCard = (name: string) =>
    textOf(join(cards, name, 'device/vendor')) === AMD_VENDOR &&
    Number(textOf(join(cards, name, 'device/mem_info_vram_total'))) >= CARD_BYTES_MIN;
  return existsSync(cards) && readdirSync(cards).some(isCard) ? 'AMD' : null;
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}

/** Where systems keep the libraries that builds need. */
const LIBRARIES = [
  'usr/lib/x86_64-linux-gnu',
  'usr/lib64',
  'usr/lib',
  'usr/local/cuda/lib64',
  'usr/lib/wsl/lib',
];

/** The best build for the card: one whose library is there, else the first. */
export function buildForCard(machine: Machine = THIS): { card: Card; build: string } | null {
  const card = cardOf(machine);
  if (card === null) return null;
  const fitting = Object.entries(buildsFor(machine)).filter(([, { cards }]) =>
    cards.includes(card),
  );
  const hasLibrary = ([, { library }]: [string, Build]) =>
    LIBRARIES.some((folder) => existsSync(join(machine.root, folder, library)));
  const [build] = fitting.find(hasLibrary) ?? fitting[0] ?? [];
  return build === undefined ? null : { card, build };
}

/** A better build for an engine that computes on the processor. Null: none is better. */
export function betterBuild(builds: string, machine: Machine = THIS) {
  const best = buildForCard(machine);
  if (best === null) return null;
  const row = buildsFor(machine)[best.build];
  return row === undefined || isInstalled(builds, row) ? null : best;
}

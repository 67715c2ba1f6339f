import { randomUUID } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { hasCode, SvcError } from '../../errors.ts';
import { writeAtomic } from '../../home/atomic-write.ts';
import { parseForeignJson } from '../../json.ts';
import { checkKey, readKeyFile, unauthorisedError } from './key-file.ts';
import type { KeyOwner, KeyPlace, LoginStore } from './port.ts';

/**
 * The keys that `svc provider key` stores: a file for each provider in the folder `keys`.
 *
 * 1. Only the owner can read a file. It is replaced at once.
 * 2. A key belongs to the address for which it was stored. No other address gets it.
 * 3. If the keychain has the key, the file has only its account. An account is used once.
 */
export class StoredKeys {
  private readonly folder: string;
  private readonly keychain: Keychain;
  /** Keys that the keychain gave, by account, because it answers slowly. */
  private readonly recent = new Map<string, string>();
  private readonly places = new Map<string, KeyPlace>();

  constructor(folder: string, keychain: Keychain = systemKeychain) {
    this.folder = folder;
    this.keychain = keychain;
  }

  /** Null: none is stored. Throws provider_unauthorised. */
  async read(id: string, config: KeyOwner): Promise<string | null> {
    const entry = await this.find(id);
    if (entry === null) return null;
    if (entry.for !== addressOf(config))
      throw unauthorisedError(
        `The stored key of ${id} is for ${entry.for}, but the provider has another address ` +
          `now. Store it again: svc provider key ${id}`,
      );
    return checkKey(entry.key ?? (await this.fromKeychain(id, entry.account)), what(id));
  }

  /**
   * Stores the key: in the keychain if one answers, else in the file. Resolves with the place.
   * Throws keychain_unavailable if only the keychain may have it.
   */
  async store(
    id: string,
    config: KeyOwner,
    key: string,
    wanted: KeyPlace | null = null,
  ): Promise<KeyPlace> {
    checkKey(key, 'The key');
    const before = await this.find(id).catch(() => null);
    const account = `${id} ${randomUUID()}`;
    const place = wanted === 'file' ? 'file' : await this.toKeychain(account, key, wanted);
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const entry: Entry = {
      for: addressOf(config),
      account: place === 'keychain' ? account : null,
      key: place === 'keychain' ? null : key,
    };
    await writeAtomic(this.file(id), `${JSON.stringify(entry)}\n`, { mode: 0o600, sync: true });
    this.places.set(id, place);
    await this.forget(before);
    return place;
  }

  /** Resolves with whether there was a key. */
  async remove(id: string): Promise<boolean> {
    const before = await this.find(id).catch(() => undefined);
    if (before === null) return false;
    await rm(this.file(id), { force: true });
    this.places.delete(id);
    await this.forget(before ?? null);
    return true;
  }

  /** Where the key is, as of the last read. */
  place(id: string): KeyPlace | null {
    return this.places.get(id) ?? null;
  }

  private async find(id: string): Promise<Entry | null> {
    // Each request asks, and most providers have no file: a failed open costs far more.
    if (!mayExist(this.file(id))) {
      this.places.delete(id);
      return null;
    }
    let text: string;
    try {
      text = await readKeyFile(this.file(id), what(id));
    } catch (error) {
      this.places.delete(id);
      if (isMissing(error)) return null;
      throw error;
    }
    const entry = v.safeParse(entrySchema, parseForeignJson(text));
    if (!entry.success) throw unauthorisedError(`${what(id)} is damaged. Store it again.`);
    this.places.set(id, entry.output.key === null ? 'keychain' : 'file');
    return entry.output;
  }

  private async fromKeychain(id: string, account: string | null): Promise<string> {
    const known = account === null ? undefined : this.recent.get(account);
    if (known !== undefined || account === null) return known ?? '';
    const key = await this.keychain.read(account).catch((error: unknown) => {
      throw unauthorisedError(
        `The key of ${id} is in the keychain, which does not answer the daemon.`,
        error,
      );
    });
    if (key === null)
      throw unauthorisedError(`The keychain has no key of ${id} any more. Store it again.`);
    this.recent.set(account, key);
    return key;
  }

  private async toKeychain(
    account: string,
    key: string,
    wanted: KeyPlace | null,
  ): Promise<KeyPlace> {
    try {
      await this.keychain.write(account, key);
      if ((await this.keychain.read(account)) === key) return 'keychain';
    } catch (error) {
      if (wanted === 'keychain' || !hasCode(error, 'keychain_unavailable')) throw error;
    }
    return 'file';
  }

  /** An old key in the keychain harms no request, so a failure is not an error. */
  private async forget(entry: Entry | null): Promise<void> {
    if (entry?.account == null) return;
    this.recent.delete(entry.account);
    await this.keychain.remove(entry.account).catch(() => {});
  }

  private file(id: string): string {
    return join(this.folder, `${id}.json`);
  }
}

/** True as well if that cannot be found out: the read says why. */
function mayExist(file: string): boolean {
  try {
    return lstatSync(file, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return true;
  }
}

const entrySchema = v.object({
  for: v.string(),
  account: v.nullable(v.string()),
  key: v.nullable(v.string()),
});
type Entry = v.InferOutput<typeof entrySchema>;

const what = (id: string) => `The stored key of ${id}`;

/** The receiver of the key: the origin of the address, or the adapter with its options. */
function addressOf({ base_url, adapter, options }: KeyOwner): string {
  if (base_url !== null) return new URL(base_url).origin;
  const named = Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1));
  return [adapter, ...named.map(([name, text]) => `${name}=${text}`)].join(' ');
}

function isMissing(error: unknown): boolean {
  return ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT';
}

/** A key of a tool server: only this server gets it, under this name. */
export function mcpKey(server: string, name: string): { id: string; owner: KeyOwner } {
  const options = { server, name };
  return {
    id: `mcp.${server}.${name}`,
    owner: { key: null, base_url: null, adapter: 'mcp' as never, options },
  };
}

/** The login at a tool server. No reference of the configuration leads to it. */
export function mcpLogin(keys: StoredKeys, server: string): LoginStore {
  const id = `mcp.${server}.@login`;
  const owner = { key: null, base_url: null, adapter: 'mcp-login' as never, options: { server } };
  return {
    read: () => keys.read(id, owner),
    write: (text) => keys.store(id, owner, text),
    remove: () => keys.remove(id),
  };
}

/** Keys in the keychain of the desktop. Every method throws keychain_unavailable without one. */
export interface Keychain {
  write(account: string, key: string): Promise<void>;
  /** Null: it has no such key. */
  read(account: string): Promise<string | null>;
  remove(account: string): Promise<void>;
}

const SERVICE = 'svc';

/**
 * The keychain of the operating system. It is loaded on use.
 *
 * On Linux only the Secret Service counts: the keyring of the kernel forgets its keys at a restart
 * of the machine.
 */
const systemKeychain: Keychain = {
  write: (account, key) => withEntry(account, (entry) => entry.setPassword(key)),
  read: (account) =>
    withEntry(account, async (entry) => (await entry.getPassword()) || null, isNoEntry),
  remove: (account) => withEntry(account, async (entry) => void (await entry.deletePassword())),
};

async function withEntry<T>(
  account: string,
  use: (entry: import('@napi-rs/keyring').AsyncEntry) => Promise<T>,
  isAbsent: (error: unknown) => boolean = () => false,
): Promise<T> {
  try {
    const { AsyncEntry } = await import('@napi-rs/keyring');
    const entry = new AsyncEntry(SERVICE, account, { linux: { store: 'secret-service' } });
    return await withTimeout(use(entry));
  } catch (error) {
    if (isAbsent(error)) return null as T;
    throw new SvcError('keychain_unavailable', undefined, { cause: error });
  }
}

function isNoEntry(error: unknown): boolean {
  return /no (matching )?entry/i.test(String((error as Error)?.message));
}

/** A keychain that is locked can wait for a person for ever. */
const ANSWER_MS = 20_000;

async function withTimeout<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the keychain does not answer')), ANSWER_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

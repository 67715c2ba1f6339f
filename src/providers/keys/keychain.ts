import { SvcError } from '../../errors.ts';

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
export const systemKeychain: Keychain = {
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
    return await within(use(entry));
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

async function within<T>(work: Promise<T>): Promise<T> {
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

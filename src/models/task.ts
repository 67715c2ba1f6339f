import { SvcError } from '../errors.ts';
import { asPullError } from './failure.ts';
import { modelNameOf, readModelName } from './file-name.ts';
import { hubAddress } from './hub/address.ts';
import { parseReference, type Reference, shownReference } from './hub/reference.ts';
import type { PullInput, PullTask } from './port.ts';

/** A checked request to download a model. */
export interface Task extends PullTask {
  reference: Reference;
  hub: URL;
  name: string | null;
  sha256: string | null;
}

/** Throws invalid_request, with the field as its param. */
export function readTask(input: PullInput, env: NodeJS.ProcessEnv): Task {
  const hub = readHub(env);
  const reference = parseReference(input.reference.trim(), hub);
  const name = input.name === null ? null : readModelName(input.name);
  const sha256 = input.sha256 === null ? null : readHash(input.sha256);
  if (reference.kind === 'url' && name === null && !/\.gguf$/i.test(reference.url.pathname)) {
    throw new SvcError('invalid_request', 'The address does not end in .gguf.', {
      param: 'reference',
      hint: 'If it is a GGUF file anyway, name the model with --name.',
    });
  }
  if (reference.kind === 'url' && name === null && modelNameOf(reference.url.pathname) === null) {
    throw new SvcError('invalid_request', 'The name of the file is not valid for a model.', {
      param: 'name',
      hint: 'Name the model with --name.',
    });
  }
  const whole = reference.kind === 'url' ? reference.url.href : shownReference(reference);
  return {
    reference,
    hub,
    name,
    sha256,
    key: JSON.stringify([whole, name, sha256]),
    shown: shownReference(reference),
  };
}

function readHub(env: NodeJS.ProcessEnv): URL {
  try {
    return hubAddress(env);
  } catch (thrown) {
    const { message } = asPullError(thrown);
    throw new SvcError('config_invalid', message, {
      param: 'HF_ENDPOINT',
      hint: 'Set HF_ENDPOINT to the address of a hub, or unset it. Then start the daemon again.',
    });
  }
}

function readHash(text: string): string {
  const hash = text
    .trim()
    .toLowerCase()
    .replace(/^sha256:/, '');
  if (/^[0-9a-f]{64}$/.test(hash)) return hash;
  throw new SvcError('invalid_request', 'A sha256 has 64 hexadecimal digits.', { param: 'sha256' });
}

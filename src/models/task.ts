import { suggest } from '../config/suggest.ts';
import { SvcError } from '../errors.ts';
import type { PullInput, PullTask } from '../ports/models.ts';
import { findKnown, isShortName, type KnownModel, knownModels, nameOfKnown } from './catalogue.ts';
import { asPullError } from './failure.ts';
import { modelNameOf, readModelName } from './file-name.ts';
import { hubAddress } from './hub/address.ts';
import { parseReference, type Reference, shownReference } from './hub/reference.ts';

/** A checked request to download a model. */
export interface Task extends PullTask {
  reference: Reference;
  hub: URL;
  name: string | null;
  sha256: string | null;
  /** Also a model that does not fit the memory. */
  anyway: boolean;
}

/** Throws invalid_request, with the field as its param. */
export function readTask(input: PullInput, env: NodeJS.ProcessEnv): Task {
  const hub = readHub(env);
  const text = input.reference.trim();
  const known = isShortName(text) ? readShortName(text) : null;
  const reference = parseReference(known?.reference ?? text, hub);
  const wanted = input.name === null ? null : readModelName(input.name);
  const name = wanted ?? (known === null ? null : nameOfKnown(known));
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
    anyway: input.anyway === true,
    key: JSON.stringify([whole, name, sha256]),
    shown: shownReference(reference),
  };
}

function readShortName(text: string): KnownModel {
  const known = findKnown(text);
  if (known !== null) return known;
  const names = knownModels.flatMap(({ name }) => [name, name.split(':')[0] ?? name]);
  const near = suggest(text.toLowerCase(), names);
  throw new SvcError(
    'invalid_request',
    `There is no model with the short name ${JSON.stringify(text.slice(0, 80))}.`,
    {
      param: 'reference',
      hint:
        (near === null ? '' : `Did you mean ${near}? `) +
        'See svc model search, or give a reference such as hf:user/repo.',
    },
  );
}

/** The hub from the environment. Throws config_invalid. */
export function readHub(env: NodeJS.ProcessEnv): URL {
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

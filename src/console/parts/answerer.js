// @ts-check

/**
 * Who answers a run, as the command line shows it.
 * @param {{ provider: string, model: string, cloud?: boolean }} run
 */
export function answererOf({ provider, model, cloud }) {
  return `${shownName(`${provider}/${model}`)}${cloud ? ' (cloud)' : ''}`;
}

/** A path says itself that the model is a file of this machine. @param {string} name */
export function shownName(name) {
  return name.replace(/^local\/(?=\/|[A-Za-z]:[\\/])/, '');
}

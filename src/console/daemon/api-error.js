// @ts-check

/** An error of the daemon. The status is null when the daemon did not answer. */
export class ApiError extends Error {
  /**
   * @param {number | null} status
   * @param {{ code?: string, message?: string, hint?: string | null }} body
   */
  constructor(
    status,
    { code = 'unreachable', message = 'The daemon does not answer.', hint = null },
  ) {
    super(hint === null || hint === '' ? message : `${message} ${hint}`);
    this.status = status;
    this.code = code;
  }
}

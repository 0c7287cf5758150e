/**
 * Characters a person does not see and a model reads: control characters, bidirectional overrides, zero-width marks,
 * the Unicode tag block and the variation selectors that can spell hidden bytes. Tab and line feed stay, and so do the
 * two selectors that choose between text and emoji.
 */
const INVISIBLE =
  // oxlint-disable-next-line no-control-regex, no-misleading-character-class
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu

/** Terminal commands (colours, cursor moves, titles); stripping the escape alone would leave their letters behind. */
// oxlint-disable-next-line no-control-regex
const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g

// oxlint-disable-next-line no-control-regex
const SUSPECT = /[^\t\n\u0020-\u007e]/

/** Removes what hides in text from outside. Line ends become `\n`. */
export function stripInvisible(text: string): string {
  if (!SUSPECT.test(text)) return text
  return text
    .replace(ANSI, '')
    .replace(/\r\n?|[\u0085\u2028\u2029]/g, '\n')
    .replace(INVISIBLE, '')
}

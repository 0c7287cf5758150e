import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** What a mailbox sent, as the mail provider would have put it on its way. */
export interface SentMail {
  readonly from: string
  readonly to: readonly string[]
  readonly subject: string
  readonly text: string
  readonly messageId: string
  readonly headers: Readonly<Record<string, string>>
  readonly at: Date
}

export interface NylasOutbox {
  file(mail: SentMail): Promise<void>
}

/** Files every mail as one `.eml`, named so that a folder shared with the SMTP simulator stays in order of time. */
export function nylasOutbox(folder: string): NylasOutbox {
  let filed = 0
  return {
    async file(mail) {
      await mkdir(folder, { recursive: true })
      filed += 1
      const stamp = mail.at.toISOString().replace(/[-:.]/g, '')
      const name = `${stamp}-${String(filed).padStart(4, '0')}-nylas`
      // Written under another name and renamed, so that whoever counts files never counts half a message.
      const temporary = join(folder, `.${name}.part`)
      await writeFile(temporary, emlOf(mail))
      await rename(temporary, join(folder, `${name}.eml`))
    },
  }
}

function emlOf({ from, to, subject, text, messageId, headers, at }: SentMail): string {
  const lines = [
    `Return-Path: <${from}>`,
    ...to.map((address) => `Delivered-To: ${address}`),
    `From: ${from}`,
    `To: ${to.join(',\r\n ')}`,
    `Subject: ${encodedWords(subject)}`,
    `Date: ${at.toUTCString()}`,
    `Message-ID: <${messageId}@nylas.test>`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    'MIME-Version: 1.0',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: base64',
    '',
    wrapped(Buffer.from(text).toString('base64')),
    '',
  ]
  return lines.map((line) => line.replace(/[\r\n]+(?! )/g, ' ')).join('\r\n')
}

/** Encoded whole, so that no character of a subject can end its line. */
function encodedWords(text: string): string {
  const words: string[] = []
  let word = ''
  for (const character of text) {
    if (Buffer.byteLength(word + character) > 42) {
      words.push(word)
      word = ''
    }
    word += character
  }
  return [...words, word].map((each) => `=?utf-8?B?${Buffer.from(each).toString('base64')}?=`).join('\r\n ')
}

function wrapped(base64: string): string {
  return base64.replace(/(.{76})(?=.)/g, '$1\r\n ')
}

/**
 * A plain mailbox address: dot-separated atoms and a domain name. Leaves out what is legal but only ever used to confuse
 * mail software: quoted parts, comments, address literals and source routes. Needs no look-around, so that RE2 can check it.
 */
export const ADDRESS_PATTERN =
  /^[A-Za-z0-9#$&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9#$&'*+/=?^_`{|}~-]+)*@([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]*[A-Za-z0-9]$/

/** Characters of a whole address that every mail server takes. */
export const MAX_ADDRESS_LENGTH = 254

/** Each mailbox once, in the order and spelling it was first given: mail software treats case as no difference. */
export function distinctAddresses(addresses: readonly string[]): string[] {
  const byMailbox = new Map<string, string>()
  for (const address of addresses) {
    const mailbox = address.toLowerCase()
    if (!byMailbox.has(mailbox)) byMailbox.set(mailbox, address)
  }
  return [...byMailbox.values()]
}

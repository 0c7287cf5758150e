/** Key names that hold a credential, compared after {@link normaliseKey}. */
const EXACT: ReadonlySet<string> = new Set(
  `authorization proxyauthorization cookie setcookie password passwd passphrase pwd pass pin otp totp mfacode secret
  clientsecret appsecret sharedsecret signingsecret webhooksecret apikey xapikey accesskey accesskeyid secretkey
  secretaccesskey privatekey sshkey encryptionkey signingkey masterkey accesstoken refreshtoken idtoken authtoken
  bearertoken sessiontoken securitytoken csrftoken xsrftoken token jwt bearer credentials credential connectionstring
  databaseurl dsn sessionid sid connectsid phpsessid jsessionid mysqlpwd pgpassword sig signature xamzsignature
  xamzcredential xamzsecuritytoken xgoogsignature awsaccesskeyid sastoken codeverifier clientassertion assertion`.split(
    /\s+/,
  ),
)

const SUFFIXES =
  'password passwd secret apikey privatekey accesskey secretkey token credentials connectionstring dsn'.split(' ')

/** Names that end like a credential and are none; without them a page token or a token count would be taken away. */
const ALLOWED: ReadonlySet<string> = new Set(
  `tokencount maxtokens inputtokens outputtokens totaltokens nextpagetoken pagetoken continuationtoken idempotencykey
  publickey primarykey foreignkey partitionkey sortkey cachekey issuekey objectkey author keyboard keyword keywords`.split(
    /\s+/,
  ),
)

/** Distinct names remembered; an answer repeats a handful, and a hostile one must not fill memory. */
const MAX_REMEMBERED = 5000
const remembered = new Map<string, boolean>()

/** Whether a field of this name holds a credential. By name only: a value scan would blank a mail about a password. */
export function isCredentialName(name: string): boolean {
  const known = remembered.get(name)
  if (known !== undefined) return known
  const credential = judge(normaliseKey(name))
  if (remembered.size >= MAX_REMEMBERED) remembered.clear()
  if (name.length <= 200) remembered.set(name, credential)
  return credential
}

function judge(key: string): boolean {
  if (ALLOWED.has(key)) return false
  return EXACT.has(key) || SUFFIXES.some((suffix) => key.endsWith(suffix))
}

/** `X-Api-Key`, `x_api_key`, `xApiKey` and the full-width spelling become one name. */
function normaliseKey(name: string): string {
  return name
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')
}

#!/bin/sh
# An OpenLDAP server with TLS and people, on a node of a test's cluster. POSIX sh.
#
# Its arguments: the name that its certificate has, the reader's password, a public key. Prints the
# authority's certificate.
set -eu
name=$1 password=$2 key=$3
export DEBIAN_FRONTEND=noninteractive
if ! command -v slapd >/dev/null; then
  printf '%s\n' 'slapd slapd/domain string example.org' 'slapd shared/organization string example' | debconf-set-selections
  get() { apt-get install -qy --no-install-recommends slapd ldap-utils openssl; }
  { get || { apt-get update -q && get; }; } >&2
fi
tls=/etc/ldap/tls
install -d -o openldap -g openldap -m 700 "$tls"
cd "$tls"
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj '/CN=authority' -keyout ca.key -out ca.pem \
  -addext basicConstraints=critical,CA:TRUE 2>/dev/null
openssl req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout server.key -out server.csr 2>/dev/null
printf 'subjectAltName=DNS:%s\n' "$name" >names
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile names -out server.pem 2>/dev/null
chown openldap:openldap server.key server.pem ca.pem
sed -i 's|^SLAPD_SERVICES=.*|SLAPD_SERVICES="ldap:/// ldapi:/// ldaps:///"|' /etc/default/slapd
systemctl enable -q slapd
systemctl restart slapd
admin=$(slappasswd -s "$password")
ldapmodify -Q -Y EXTERNAL -H ldapi:/// >&2 <<END
dn: cn=config
changetype: modify
replace: olcTLSCertificateFile
olcTLSCertificateFile: $tls/server.pem
-
replace: olcTLSCertificateKeyFile
olcTLSCertificateKeyFile: $tls/server.key

dn: olcDatabase={1}mdb,cn=config
changetype: modify
replace: olcRootPW
olcRootPW: $admin
END
ldapadd -Q -Y EXTERNAL -H ldapi:/// >&2 <<'END'
dn: cn=openssh-lpk,cn=schema,cn=config
objectClass: olcSchemaConfig
cn: openssh-lpk
olcAttributeTypes: ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
olcObjectClasses: ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
END
systemctl restart slapd

person() { # NAME NUMBER GROUP
  cat <<END

dn: uid=$1,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
objectClass: posixAccount
objectClass: ldapPublicKey
uid: $1
cn: $1
sn: $1
uidNumber: $2
gidNumber: ${3:-5000}
homeDirectory: /home/$1
userPassword: $password
END
}
{
  cat <<END
dn: cn=reader,dc=example,dc=org
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: $(slappasswd -s "$password")

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example,dc=org
objectClass: organizationalUnit
ou: groups

dn: cn=vision,ou=groups,dc=example,dc=org
objectClass: posixGroup
cn: vision
gidNumber: 5000
memberUid: lina
END
  person lina 5001
  printf 'sshPublicKey: %s\n' "$key"
  person milo 5002
  person nora 5003
  person olaf 5004
  person pia 5005
  person otto 2000
  # Entries that would be somebody of a node: by name, by number, by primary group, by the name of a group.
  person corral 6001
  printf 'sshPublicKey: %s\n' "$key"
  person sly 64030
  printf 'sshPublicKey: %s\n' "$key"
  person gus 6002 64030
  cat <<END

dn: cn=sudo,ou=groups,dc=example,dc=org
objectClass: posixGroup
cn: sudo
gidNumber: 6003
memberUid: lina
END
} | ldapadd -x -D cn=admin,dc=example,dc=org -w "$password" -H ldapi:/// >&2
cat ca.pem

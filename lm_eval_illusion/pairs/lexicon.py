"""Short word lists: function words that may not begin or end a distractor, and number words.

The lists are casefolded and only as long as needed: for languages without one, words that occur in many passages of the
data set count as function words (see `spans.Vocabulary`).
"""

from __future__ import annotations

FUNCTION_WORDS: dict[str, frozenset[str]] = {
    "en": frozenset(
        "a an the of in on at to for from by with as and or but nor if than then that this these those it its he she they "
        "his her their him them we our you your i my is are was were be been being has have had do does did will would can "
        "could may might must shall should not no so such which who whom whose what when where why how there here also into "
        "onto over under between among about after before during since until while because through against within without "
        "up down out off only just more most very many much some any each every all both either neither other another same "
        "own one's via per however although though first later several known called including became".split()
    ),
    "de": frozenset(
        "der die das den dem des ein eine einen einem einer eines und oder aber in im an am auf aus bei mit von vom zu zum "
        "zur für ist sind war waren wird wurde wurden hat haben hatte als auch nicht nur so wie dass es er sie sich".split()
    ),
    "ru": frozenset(
        "и в во на с со по к ко у о об от до из за для при под над без через между или но а что как так же это этот эта эти "
        "тот та те то он она оно они его её ее их ему ей им был была было были быть есть не ни нет бы ли если чтобы который "
        "которая которое которые которого которой которых также только уже ещё еще более менее после перед во время лишь "
        "где когда либо всё все весь свой своей своего который".split()
    ),
    "fi": frozenset(
        "ja tai sekä mutta että kun jos kuin niin myös on oli ovat olivat olla ollut ei eivät se ne hän he sen niiden hänen "
        "heidän tämä nämä joka jotka jonka joita jossa johon mukaan kanssa jälkeen ennen vain jo vielä noin yli alle kautta "
        "ollessa ovat eli esimerkiksi kuten muun muassa sitä siitä siihen siinä hyvin".split()
    ),
    "id": frozenset(
        "dan atau tetapi yang di ke dari pada untuk dengan oleh dalam adalah ialah ini itu ia dia mereka para sebagai karena "
        "bahwa juga tidak bukan akan telah sudah dapat bisa ada antara sampai hingga setelah sebelum saat ketika serta lebih "
        "sangat secara seperti tersebut maka namun sebuah seorang suatu menjadi merupakan lain nya agar bagi kepada".split()
    ),
    "sw": frozenset(
        "na ya wa za la cha vya kwa katika ni si au lakini pia kama ili kuwa hadi kutoka mpaka baada kabla wakati huu hii hiyo "
        "huo hizo hao hilo hicho hivyo ambao ambayo ambaye ambalo yake wake zake lake chake yao wao zao alikuwa ilikuwa "
        "walikuwa kwamba bila hasa tu sana zaidi kila pamoja mwa pa kwenye ndani nje juu chini ndiyo yeye".split()
    ),
    "ar": frozenset(
        "في من إلى الى على عن مع و أو او ثم أن ان إن التي الذي الذين هو هي هم هذا هذه ذلك تلك كان كانت كما قد لا لم لن ما "
        "بعد قبل بين عند عندما حتى حيث أي كل غير بعض منذ خلال وهو وهي وكان وكانت وفي ومن على وقد أنه أنها ولم ليس له لها "
        "به بها فيه فيها منه منها عليه عليها إذا لكن فقط أيضا أيضاً".split()
    ),
    "bn": frozenset(
        "এবং ও বা কিন্তু যে যা এই সেই তার তাঁর তিনি তারা এর এটি একটি একজন করে করা করেন করেছিলেন হয় হয়েছিল হয়ে ছিল ছিলেন থেকে "
        "জন্য সাথে সঙ্গে মধ্যে পরে আগে না নয় যার যিনি হিসেবে দ্বারা উপর নিয়ে এক হন হচ্ছে আছে".split()
    ),
    "te": frozenset(
        "మరియు లేదా కానీ ఈ ఆ ఒక ఇది అది ఇతను ఆయన ఆమె అతను వారు ఉంది ఉన్నాయి ఉన్నది ఉన్న నుండి నుంచి వరకు కోసం తో లో కూడా "
        "అని అనే అయిన అయితే కాగా తరువాత ముందు మీద పై కి కు యొక్క ద్వారా చేసి చేసిన గల కలదు ఉండేది జరిగింది".split()
    ),
    "ko": frozenset(
        "그 이 저 및 또는 그리고 그러나 하지만 것 수 등 때 있다 있는 없는 한 된 하는 되었다 했다 하였다 이다 있었다 또한 그는 이는 위해 "
        "대한 대해 의해 통해 따라 함께 가장 모두 매우 다른 같은 이후 당시 중 후".split()
    ),
}
"""Words that make no sense at the edge of an answer, casefolded."""

NUMBER_WORDS: dict[str, frozenset[str]] = {
    "en": frozenset(
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
        "nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen half twice "
        "third fourth fifth sixth".split()
    ),
    "de": frozenset("eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf hundert tausend".split()),
    "ru": frozenset(
        "один одна два две три четыре пять шесть семь восемь девять десять одиннадцать двенадцать двадцать тридцать сорок "
        "пятьдесят сто двести тысяча тысячи миллион миллиона миллионов".split()
    ),
    "fi": frozenset(
        "yksi kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän kymmenen yksitoista kaksitoista sata tuhat".split()
    ),
    "id": frozenset("satu dua tiga empat lima enam tujuh delapan sembilan sepuluh sebelas seratus seribu".split()),
    "sw": frozenset(
        "moja mbili tatu nne tano sita saba nane tisa kumi ishirini thelathini arobaini hamsini mia elfu milioni wawili "
        "watatu wanne watano sitini sabini themanini tisini".split()
    ),
    "ar": frozenset(
        "واحد واحدة اثنان اثنين اثنتان ثلاثة ثلاث أربعة أربع خمسة خمس ستة ست سبعة سبع ثمانية ثماني تسعة تسع عشرة عشر مائة "
        "مئة ألف مليون عشرون عشرين ثلاثون ثلاثين".split()
    ),
    "bn": frozenset("এক দুই তিন চার পাঁচ ছয় সাত আট নয় দশ দুটি তিনটি চারটি পাঁচটি ছয়টি সাতটি আটটি নয়টি দশটি শত হাজার".split()),
    "te": frozenset("ఒకటి రెండు మూడు నాలుగు ఐదు ఆరు ఏడు ఎనిమిది తొమ్మిది పది ఇద్దరు ముగ్గురు నలుగురు వంద వెయ్యి లక్ష".split()),
    "ko": frozenset("하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열 두 세 네".split()),
}
"""Number words, casefolded."""

PARTICLES: dict[str, tuple[str, ...]] = {
    "ko": tuple(
        "에서는 에서도 으로는 으로써 으로서 이라는 이라고 에서 에게 에는 에도 으로 까지 부터 이며 이고 이나 라는 라고 로서 로써 처럼 보다 "
        "이다 였다 은 는 이 가 을 를 의 에 로 와 과 도 만 인".split()
    ),
}
"""Endings written onto a word that golds leave off, longest first."""

/* See ratings_names.h. Names are normalized (text_columns.h): in lower case, without blanks, '_', '-' and '.'. They are
 * listed in docs/mf.md, too. */
#include "workers/data/ratings_names.h"

static const char user_ids[] =
    "userid uid useridx userindex userno usernum usernumber userkey userhash useruuid reviewerid raterid "
    "customerid custid memberid visitorid accountid clientid personid playerid viewerid listenerid readerid "
    "buyerid shopperid consumerid subscriberid profileid studentid patientid authorid steamid workerid "
    "criticid judgeid msno";
static const char users[] =
    "user users u reviewer rater customer cust member visitor account client person player viewer listener "
    "reader buyer shopper consumer subscriber critic judge worker student patient";
static const char user_words[] =
    "username reviewername profilename reviewprofilename nickname screenname login useremail email "
    "customername membername fullname";
static const char item_ids[] =
    "itemid iid itemidx itemindex itemno itemnum itemnumber itemkey itemhash movieid filmid animeid mangaid "
    "showid seriesid tvid videoid titleid bookid workid articleid newsid postid storyid documentid docid "
    "contentid asin productid goodsid merchandiseid listingid offerid trackid songid artistid albumid musicid "
    "podcastid gameid appid businessid restaurantid hotelid placeid poiid venueid locationid attractionid "
    "recipeid foodid beerid beerbeerid wineid drinkid jokeid courseid jobid questionid problemid drugid "
    "photoid imageid pinid adid storeid shopid merchantid brandid objectid artworkid groupid";
static const char items[] =
    "item items i movie film anime manga show series video book isbn isbn10 isbn13 article news post story "
    "document product parentasin goods sku upc ean gtin track song artist album music podcast game app "
    "business restaurant hotel place venue poi location recipe beer wine joke course job question problem drug "
    "imdbid tmdbid object content dish food mid pid bid";
static const char item_words[] =
    "itemname itemtitle title movietitle moviename filmtitle animetitle animename booktitle bookname "
    "producttitle productname tracktitle trackname songtitle songname artistname albumname gametitle gamename "
    "businessname restaurantname hotelname beername winename recipename coursename name";
static const char ratings[] =
    "rating ratings userrating starrating bookrating movierating itemrating productrating reviewrating "
    "overallrating ratingvalue ratingscore ratingoverall myrating yourrating animerating beerrating gamerating "
    "tasterating";
static const char scores[] =
    "overall reviewoverall score scores reviewscore userscore myscore star stars reviewstars numstars grade "
    "mark rate rated vote points";
static const char amounts[] =
    "value weight preference pref strength feedback hours hoursplayed playtime playtimeforever minutes plays "
    "playcount playscount totalplays listens listencount listeningcount scrobbles count counts clicks "
    "clickcount views viewcount visits quantity qty purchases purchasecount amount interaction interactions "
    "frequency freq watchtime watchratio duration behaviorvalue target label y r";
static const char times[] =
    "timestamp time date datetime day ts unixtime unixreviewtime reviewtime reviewdate ratingtime ratingdate "
    "ratingtimestamp createdat updatedat dateadded epoch t";

const struct text_role ratings_names[RATING_ROLES][RATINGS_TIERS] = {
    [RATING_USER] = {{"user", user_ids}, {"user", users}, {"user", user_words}},
    [RATING_ITEM] = {{"item", item_ids}, {"item", items}, {"item", item_words}},
    [RATING_VALUE] = {{"rating", ratings}, {"rating", scores}, {"rating", amounts}},
};

const struct text_role ratings_time_names = {"time", times};
